"use strict";
// Bars of thread groups and threads, with d3.
(() => {
  const LABEL = 220;
  const INDENT = 14;
  const ROW = 22;
  const PAPER = 40;
  const { duration, percent } = convoy;

  // Rows of parts: {name, parts: [[text, ns, colour]], members}. A row with members opens.
  const rows = (figure, every, format) => {
    const room = figure.querySelector(".drawing");
    const opened = new Set();
    const mark = (d) => (d.members?.length ? (opened.has(d) ? "▾ " : "▸ ") : "");
    const toggle = (d) => {
      if (!d.members?.length) return;
      if (!opened.delete(d)) opened.add(d);
      draw();
    };
    const draw = () => {
      const shown = every.flatMap((d) => (opened.has(d) ? [d, ...d.members] : [d]));
      // On paper as many as the table has.
      const all = convoy.printing ? shown.slice(0, PAPER) : shown;
      const width = Math.max(320, room.clientWidth);
      const label = Math.min(LABEL, Math.round(width * 0.4));
      const letters = Math.floor(label / 6.6);
      const x = d3.scaleLinear([0, d3.max(all, (row) => d3.sum(row.parts, (part) => part[1])) || 1], [label, width - 70]);
      const svg = d3.select(room).selectAll("svg").data([0]).join("svg").attr("width", width).attr("height", all.length * ROW + 28);
      const row = svg.selectAll("g.row").data(all).join("g").attr("class", "row").attr("transform", (_, i) => `translate(0,${i * ROW})`);
      row.selectAll("text.name").data((d) => [d]).join("text").attr("class", "name").attr("y", ROW * 0.7)
        .attr("x", (d) => label - 6 - (d.member ? INDENT : 0))
        .attr("text-anchor", "end").text((d) => mark(d) + clip(d.name, letters)).append("title").text((d) => d.name);
      row.classed("opens", (d) => d.members?.length > 0).on("click", (_, d) => toggle(d))
        .attr("tabindex", (d) => (d.members?.length ? 0 : null)).attr("role", (d) => (d.members?.length ? "button" : null))
        .attr("aria-expanded", (d) => (d.members?.length ? opened.has(d) : null))
        .on("keydown", (event, d) => {
          if (event.key !== "Enter" && event.key !== " ") return;
          event.preventDefault();
          toggle(d);
        });
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
      const item = document.createElement("span");
      item.append(mark, text);
      list.append(item, " ");
    }
    figure.append(list);
  };

  const groups = (figure) => {
    const fixed = new Map([["work", "var(--running)"], ["work, or waits that nobody saw", "var(--running-soft)"], ["waits for a CPU", "var(--ready)"], ["other waits", "var(--other)"]]);
    const named = d3.scaleOrdinal(d3.schemeTableau10.filter((_, i) => i !== 0));
    const hue = (text) => fixed.get(text) ?? named(text);
    const size = (group) => (group.processes > 1 ? `${group.processes} processes` : group.threads);
    const bar = (group) => ({
      name: group.processes > 1 || group.threads > 1 ? `${convoy.text(group.name)} (${size(group)})` : convoy.text(group.name),
      parts: group.parts.map(([text, ns]) => [convoy.text(text), ns, hue(convoy.text(text))]),
      members: group.members.map((member) => ({ ...bar(member), member: true })),
    });
    const all = convoy.page.groups.map(bar);
    const work = (d) => d.parts.find((part) => part[0] === "work")?.[1];
    rows(figure, all, (d) => (work(d) === undefined ? "" : percent(work(d) / d3.sum(d.parts, (part) => part[1]))));
    const seen = [...new Set(all.flatMap((row) => row.parts.map((part) => part[0])))];
    legend(figure, seen.map((text) => [clip(text, 48), hue(text)]));
  };

  const cmetric = (figure) => {
    const { names, cm, groups } = convoy.page.threads;
    const bar = (name, ns, working) => ({
      name,
      parts: [["working", Math.min(ns, working), "var(--running)"], ["in waiting loops", Math.max(0, ns - working), "var(--spinning)"]]
        .filter((part) => part[1] > 0),
    });
    // Processes of one executable are one bar.
    const ends = d3.cumsum(groups, (group) => group[1]);
    const of = d3.groups(cm, ([thread]) => {
      const at = d3.bisectRight(ends, thread);
      return groups[at][2] > convoy.PROCESSES ? at : `thread ${thread}`;
    });
    const all = of.map(([at, rows]) => {
      const bars = rows.map(([thread, ns, working]) => bar(convoy.text(names[thread]), ns, working));
      if (rows.length === 1) return bars[0];
      const sum = bar(`${convoy.text(groups[at][0])} (${rows.length} processes)`, d3.sum(rows, (row) => row[1]), d3.sum(rows, (row) => row[2]));
      return { ...sum, members: bars.map((one) => ({ ...one, member: true })) };
    });
    all.sort((a, b) => d3.sum(b.parts, (part) => part[1]) - d3.sum(a.parts, (part) => part[1]));
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
