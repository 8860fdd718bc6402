"use strict";
// Bars of thread groups and threads, with d3.
(() => {
  const LABEL = 220;
  const ROW = 22;
  const PAPER = 40;
  const { duration, percent } = convoy;

  // Rows of parts: {name, parts: [[text, ns, colour]]}.
  const rows = (figure, every, format) => {
    const room = figure.querySelector(".drawing");
    const draw = () => {
      // On paper as many as the table has.
      const all = convoy.printing ? every.slice(0, PAPER) : every;
      const width = Math.max(320, room.clientWidth);
      const x = d3.scaleLinear([0, d3.max(all, (row) => d3.sum(row.parts, (part) => part[1])) || 1], [LABEL, width - 70]);
      const svg = d3.select(room).selectAll("svg").data([0]).join("svg").attr("width", width).attr("height", all.length * ROW + 28);
      const row = svg.selectAll("g.row").data(all).join("g").attr("class", "row").attr("transform", (_, i) => `translate(0,${i * ROW})`);
      row.selectAll("text.name").data((d) => [d]).join("text").attr("class", "name").attr("x", LABEL - 6).attr("y", ROW * 0.7)
        .attr("text-anchor", "end").text((d) => clip(d.name, 34)).append("title").text((d) => d.name);
      const starts = new Map(all.map((d) => [d, d3.cumsum(d.parts, (part) => part[1])]));
      row.selectAll("rect").data((d) => d.parts.map((part, i) => ({ part, from: starts.get(d)[i] - part[1], all: d }))).join("rect")
        .attr("x", (d) => x(d.from)).attr("width", (d) => Math.max(0.5, x(d.from + d.part[1]) - x(d.from))).attr("y", 3).attr("height", ROW - 6)
        .attr("fill", (d) => d.part[2]).selectAll("title").data((d) => [d]).join("title")
        .text((d) => `${d.part[0]}: ${duration(d.part[1])} (${percent(d.part[1] / (d3.sum(d.all.parts, (part) => part[1]) || 1))})`);
      row.selectAll("text.sum").data((d) => [d]).join("text").attr("class", "sum").attr("y", ROW * 0.7)
        .attr("x", (d) => x(d3.sum(d.parts, (part) => part[1])) + 5).text((d) => format(d));
      svg.selectAll("g.axis").data([0]).join("g").attr("class", "axis").attr("transform", `translate(0,${all.length * ROW + 2})`)
        .call(d3.axisBottom(x).ticks(5).tickFormat(duration));
    };
    draw();
    convoy.fit(room, draw);
  };

  const clip = (text, most) => (text.length <= most ? text : `${text.slice(0, most - 12)}..${text.slice(-10)}`);

  const legend = (figure, parts) => {
    const list = document.createElement("p");
    list.className = "legend";
    for (const [text, colour] of parts) {
      const mark = document.createElement("i");
      mark.style.background = colour;
      list.append(mark, `${text} `);
    }
    figure.append(list);
  };

  const groups = (figure) => {
    const fixed = new Map([["work", "var(--running)"], ["work, or waits that nobody saw", "var(--running-soft)"], ["waits for a CPU", "var(--ready)"], ["other waits", "var(--other)"]]);
    const named = d3.scaleOrdinal(d3.schemeTableau10.filter((_, i) => i !== 0));
    const hue = (text) => fixed.get(text) ?? named(text);
    const all = convoy.page.groups.map((group) => ({
      name: `${convoy.text(group.name)} (${group.threads})`,
      parts: group.parts.map(([text, ns]) => [convoy.text(text), ns, hue(convoy.text(text))]),
    }));
    const work = (d) => d.parts.find((part) => part[0] === "work")?.[1];
    rows(figure, all, (d) => (work(d) === undefined ? "" : percent(work(d) / d3.sum(d.parts, (part) => part[1]))));
    const seen = [...new Set(all.flatMap((row) => row.parts.map((part) => part[0])))];
    legend(figure, seen.map((text) => [clip(text, 48), hue(text)]));
  };

  const cmetric = (figure) => {
    const { names, cm } = convoy.page.threads;
    const all = cm.map(([thread, ns, working]) => ({
      name: convoy.text(names[thread]),
      parts: [["working", Math.min(ns, working), "var(--running)"], ["in waiting loops", Math.max(0, ns - working), "var(--spinning)"]]
        .filter((part) => part[1] > 0),
    }));
    rows(figure, all, (d) => duration(d3.sum(d.parts, (part) => part[1])));
  };

  // A row for each holder of a lock: the more of a moment it held it while others waited, the darker.
  const HOLDERS = 8;
  const MOMENTS = 240;
  const holders = (figure) => {
    const object = Number(figure.dataset.object);
    const { width, sums, total } = convoy.holders(object, MOMENTS);
    const { names } = convoy.page.threads;
    const said = figure.querySelector(".said");
    const end = width * MOMENTS;
    const room = figure.querySelector(".drawing");
    let all = d3.sort(sums, ([, sum]) => -d3.sum(sum)).map(([by, sum]) => ({ name: by < 0 ? "not a thread of it" : convoy.text(names[by]), sum }));
    if (all.length > HOLDERS) {
      const others = all.splice(HOLDERS - 1);
      const sum = Float64Array.from({ length: MOMENTS }, (_, p) => d3.sum(others, (other) => other.sum[p]));
      all.push({ name: `${others.length} others`, sum });
    }
    said.textContent = total > 0
      ? `For ${duration(total)} (${percent(total / end)} of the run) somebody held it while others waited.`
      : "No wait for it was long enough to be seen in the timeline.";
    const label = 150, sumWidth = 64;
    const draw = () => {
      const full = Math.max(320, room.clientWidth);
      const x = d3.scaleLinear([0, end], [label, full - sumWidth]);
      const svg = d3.select(room).selectAll("svg").data([0]).join("svg").attr("width", full).attr("height", all.length * ROW + 24);
      const row = svg.selectAll("g.row").data(all).join("g").attr("class", "row").attr("transform", (_, i) => `translate(0,${i * ROW})`);
      row.selectAll("text.name").data((d) => [d]).join("text").attr("class", "name").attr("x", label - 6).attr("y", ROW * 0.7)
        .attr("text-anchor", "end").text((d) => clip(d.name, 22)).append("title").text((d) => d.name);
      row.selectAll("rect").data((d) => Array.from(d.sum, (ns, p) => ({ ns, p })).filter((cell) => cell.ns > 0)).join("rect")
        .attr("x", (d) => x(d.p * width)).attr("width", Math.max(1, x(width) - x(0))).attr("y", 2).attr("height", ROW - 4)
        .attr("fill", "var(--running)").attr("fill-opacity", (d) => 0.25 + 0.75 * Math.min(1, d.ns / width));
      row.selectAll("text.sum").data((d) => [d]).join("text").attr("class", "sum").attr("y", ROW * 0.7)
        .attr("x", full - sumWidth + 6).text((d) => duration(d3.sum(d.sum)));
      const ticks = x.ticks(Math.max(2, Math.floor((full - label - sumWidth) / 90)));
      const step = ticks.length > 1 ? ticks[1] - ticks[0] : end;
      svg.selectAll("g.axis").data([0]).join("g").attr("class", "axis").attr("transform", `translate(0,${all.length * ROW + 2})`)
        .call(d3.axisBottom(x).tickValues(ticks).tickFormat((ns) => convoy.moment(ns, step)));
    };
    if (all.length === 0) return room.remove();
    draw();
    convoy.fit(room, draw);
  };

  Object.assign(convoy.curves, { groups, cmetric, holders });
})();
