"use strict";
// Curves and histograms, with uPlot.
(() => {
  const HEIGHT = 220;
  const PIECES = 300;
  const { colour, count, duration, moment } = convoy;

  const axis = (options) => ({
    stroke: () => colour("text"),
    grid: { stroke: () => colour("grid"), width: 1 },
    ticks: { stroke: () => colour("grid"), width: 1 },
    font: "12px system-ui, sans-serif",
    ...options,
  });

  // Times on an axis: as exact as its ticks are apart, with room for "1050 ms".
  const times = {
    space: 70,
    values: (_, splits) => {
      const step = splits.length > 1 ? splits[1] - splits[0] : 1e9;
      return splits.map((ns) => moment(ns, step));
    },
  };

  const series = (label, name, options) => ({
    label,
    stroke: () => colour(name),
    fill: options?.filled ? () => colour(`${name}-soft`) : undefined,
    width: 1.5,
    points: { show: false },
    value: (_, n) => (n === null || n === undefined ? "" : n.toFixed(1)),
    ...options,
  });

  const plot = (figure, options, data, height = HEIGHT) => {
    const room = figure.querySelector(".drawing");
    const width = () => Math.max(240, room.clientWidth);
    const chart = new uPlot({ width: width(), height, cursor: { y: false }, ...options }, data, room);
    chart.root.querySelector(".u-legend")?.setAttribute("aria-label", "Values where the pointer is");
    convoy.fit(room, () => {
      if (Math.abs(chart.width - width()) > 1) chart.setSize({ width: width(), height });
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => chart.redraw());
    return chart;
  };

  const activity = (figure) => {
    const a = convoy.page.activity;
    const said = figure.querySelector(".said");
    const x = [...a.from_ns, a.end_ns];
    const held = (values) => [...values, values[values.length - 1]];
    const stepped = uPlot.paths.stepped({ align: 1 });
    const shade = (u) => {
      u.ctx.save();
      u.ctx.fillStyle = colour("low");
      const { top, height, left, width } = u.bbox;
      u.ctx.beginPath();
      u.ctx.rect(left, top, width, height);
      u.ctx.clip();
      a.low.forEach((low, i) => {
        if (low === null) return;
        const from = u.valToPos(x[i], "x", true);
        u.ctx.fillRect(from, top, u.valToPos(x[i + 1], "x", true) - from, height);
      });
      u.ctx.restore();
    };
    const tell = (u) => {
      const i = u.cursor.idx;
      if (i === null || i === undefined || i >= a.low.length) return;
      const low = a.low[i] === null ? "" : `; meanwhile: ${convoy.text(a.low[i])}`;
      said.textContent = `at ${moment(x[i], x[1] - x[0])}: ${a.working[i].toFixed(1)} working, ${a.active[i].toFixed(1)} active, ` +
        `${a.running[i].toFixed(1)} on a CPU${low}`;
    };
    const chart = plot(figure, {
      scales: { x: { time: false }, y: { range: (_, __, max) => [0, Math.max(1, a.cpus, max) * 1.05] } },
      axes: [axis(times), axis({ label: "threads", size: 56 })],
      series: [
        { label: "time", value: (_, ns) => (ns === null ? "" : moment(ns, x[1] - x[0])) },
        // Broad, so that it is seen beside those that work, who are most of them in most programs.
        series("active", "active", { paths: stepped, width: 4 }),
        series("working", "running", { paths: stepped, filled: true }),
        series("on a CPU", "cpu", { paths: stepped }),
      ],
      hooks: { drawClear: [shade], setCursor: [tell] },
    }, [x, held(a.active), held(a.working), held(a.running)]);
    // The keyboard's way to what the mouse shows.
    let at = 0;
    figure.querySelector(".drawing").addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -20, PageDown: 20 }[event.key];
      if (!step) return;
      event.preventDefault();
      at = Math.max(0, Math.min(a.low.length - 1, at + step));
      chart.setCursor({ left: chart.valToPos(x[at], "x") + 1, top: 10 });
    });
  };

  const levels = (figure) => {
    const rows = convoy.page.activity.levels;
    const bars = uPlot.paths.bars({ size: [0.8, 60] });
    plot(figure, {
      scales: { x: { time: false, range: [-0.6, rows.length - 0.4] }, y: { range: (_, __, max) => [0, max * 1.05 || 1] } },
      axes: [
        axis({
          label: "working threads",
          splits: () => rows.map((_, i) => i).filter((i) => i % Math.ceil(rows.length / 24) === 0),
          values: (_, at) => at.map((i) => rows[i]?.[0] ?? ""),
        }),
        axis({ label: "seconds", size: 64 }),
      ],
      series: [
        { label: "threads", value: (_, i) => rows[i]?.[0] ?? "" },
        series("working", "running", { paths: bars, filled: true, value: (_, s) => (s === null ? "" : duration(s * 1e9)) }),
      ],
    }, [rows.map((_, i) => i), rows.map((row) => row[2] / 1e9)], 180);
  };

  let shared = null;
  const waits = (figure) => {
    shared ??= convoy.waits(PIECES);
    const sums = shared.sums.get(Number(figure.dataset.object));
    if (!sums) return;
    const x = Array.from(sums, (_, i) => i * shared.width);
    plot(figure, {
      scales: { x: { time: false }, y: { range: (_, __, max) => [0, Math.max(1, max * 1.05)] } },
      axes: [axis(times), axis({ label: "threads", size: 56 })],
      series: [
        { label: "time", value: (_, ns) => (ns === null ? "" : moment(ns, shared.width)) },
        series("waiting", "lock", { paths: uPlot.paths.stepped({ align: 1 }), filled: true }),
      ],
    }, [x, Array.from(sums)], 160);
  };

  const hist = (figure) => {
    const lock = convoy.page.locks.find((lock) => lock.object === Number(figure.dataset.object));
    const first = lock ? lock.hist.findIndex((n) => n > 0) : -1;
    if (first < 0) return;
    const rows = lock.hist.slice(first);
    const length = (i) => duration(2 ** (i + first));
    plot(figure, {
      scales: { x: { time: false, range: [-0.6, rows.length - 0.4] }, y: { range: (_, __, max) => [0, max * 1.05 || 1] } },
      axes: [
        axis({
          splits: (u) => {
            const labels = Math.max(2, Math.floor((u.width - 64) / 55));
            return rows.map((_, i) => i).filter((i) => i % Math.ceil(rows.length / labels) === 0);
          },
          values: (_, at) => at.map(length),
        }),
        axis({ label: "waits", size: 64, values: (_, ns) => ns.map(count) }),
      ],
      series: [
        { label: "length", value: (_, i) => (i === null ? "" : `${length(i)} to ${length(i + 1)}`) },
        series("waits", "lock", { paths: uPlot.paths.bars({ size: [0.9, 60] }), filled: true }),
      ],
    }, [rows.map((_, i) => i), rows], 160);
  };

  const family = (figure) => {
    const family = convoy.page.families[Number(figure.dataset.family)];
    if (!family) return;
    const bars = uPlot.paths.bars({ size: [0.9, 40] });
    const rows = family.rows;
    plot(figure, {
      scales: {
        x: { time: false, range: [-0.6, rows.length - 0.4] },
        y: { range: (_, __, max) => [0, max * 1.05 || 1] },
        waited: { range: (_, __, max) => [0, max * 1.05 || 1] },
      },
      axes: [
        axis({ label: "locks, most used first" }),
        axis({ label: "acquisitions", size: 64, values: (_, n) => n.map(count) }),
        axis({ scale: "waited", side: 1, label: "ms waited", grid: { show: false } }),
      ],
      series: [
        { label: "lock", value: (_, i) => (rows[i] ? convoy.text(rows[i][0]) : "") },
        series("acquisitions", "running", { paths: bars, filled: true }),
        series("ms waited", "lock", { scale: "waited", points: { show: true, size: 5 } }),
      ],
    }, [rows.map((_, i) => i), rows.map((row) => row[1]), rows.map((row) => row[3] / 1e6)]);
  };

  convoy.curves = { activity, levels, waits, hist, family };
})();
