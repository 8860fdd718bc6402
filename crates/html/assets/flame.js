"use strict";
// Waiting time by call stack, with d3-flame-graph.
(() => {
  const { duration, percent } = convoy;

  convoy.flame = (section) => {
    const room = section.querySelector(".flame");
    const said = section.querySelector(".said");
    const tree = convoy.page.flame;
    const tell = (d) => `${d.data.name}: ${duration(d.data.value)} (${percent(d.data.value / tree.value)})`;
    const hue = (d) => convoy.colour(["flame-code", "flame-wait", "flame-waker"][d.data.kind] ?? "flame-code");
    const moves = matchMedia("(prefers-reduced-motion: reduce)").matches ? 0 : 250;
    const chart = flamegraph()
      .width(Math.max(320, room.clientWidth))
      .cellHeight(19)
      .minFrameSize(1)
      .transitionDuration(moves)
      .inverted(false)
      .sort((a, b) => d3.descending(a.data.value, b.data.value))
      .selfValue(false)
      .setLabelHandler(tell)
      .setColorMapper((d) => (d.highlight ? convoy.colour("found") : hue(d)))
      .onHover((d) => { said.textContent = tell(d); })
      .onClick((d) => {
        said.textContent = tell(d);
        reachNew();
      });
    d3.select(room).datum(tree).call(chart);
    // The library makes frames as wide as they are, and writes on them, by transitions. Their clock stands still while
    // a page is printed: a picture that is drawn then would be empty.
    const settle = () => {
      d3.select(room).selectAll("g.frame").each(function place(d) {
        const row = /,(.*)\)/.exec(this.getAttribute("transform"))[1];
        this.setAttribute("transform", `translate(${d.x0 * chart.width()},${row})`);
        this.querySelector("rect").setAttribute("width", this.getAttribute("width"));
        this.querySelector(".d3-flame-graph-label").textContent = d.data.name;
      });
    };
    settle();
    // Frames are reached with the tab key and zoomed with Enter; other frames are there once the view has moved.
    const reachNew = () => setTimeout(() => reach(), moves + 50);
    const reach = () => {
      for (const frame of room.querySelectorAll("g.frame")) {
        frame.setAttribute("tabindex", "0");
        frame.setAttribute("role", "button");
        frame.setAttribute("aria-label", frame.querySelector("title")?.textContent ?? "");
      }
    };
    reach();
    room.removeAttribute("role");
    room.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || !event.target.matches("g.frame")) return;
      event.target.dispatchEvent(new MouseEvent("click", { bubbles: true }));
    });
    section.querySelector("[data-do=find]").addEventListener("input", (event) => {
      const words = event.target.value.trim();
      if (words === "") chart.clear();
      // What is typed is text, not an expression.
      else chart.search(words.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
    });
    section.querySelector("[data-do=unzoom]").addEventListener("click", () => {
      chart.resetZoom();
      reachNew();
    });
    convoy.fit(room, () => {
      const width = Math.max(320, room.clientWidth);
      if (Math.abs(chart.width() - width) < 2) return;
      chart.transitionDuration(0);
      chart.width(width);
      chart.update();
      chart.transitionDuration(moves);
      settle();
    });
  };
})();
