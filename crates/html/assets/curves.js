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

  // Columns of a few pixels: begin of each, and of each curve least, mean and most. `x`: begins of
  // the pieces, and the end of the last one.
  const COLUMN = 3;
  convoy.columns = (x, curves, [from, to], most) => {
    const begin = Math.max(0, d3.bisectRight(x, from) - 1);
    const end = Math.min(x.length - 1, Math.max(begin + 1, d3.bisectLeft(x, to)));
    const each = Math.max(1, Math.ceil((end - begin) / Math.max(1, most)));
    const xs = [];
    const sums = curves.map(() => ({ least: [], mean: [], most: [] }));
    for (let i = begin; i < end; i += each) {
      const last = Math.min(end, i + each);
      xs.push(x[i]);
      curves.forEach((values, k) => {
        const piece = values.slice(i, last);
        const whole = x[last] - x[i];
        const mean = whole > 0 ? d3.sum(piece, (value, j) => value * (x[i + j + 1] - x[i + j])) / whole : piece[0];
        sums[k].least.push(d3.min(piece));
        sums[k].mean.push(mean);
        sums[k].most.push(d3.max(piece));
      });
    }
    // A step ends where the next one begins: the last one, at the end.
    xs.push(x[end]);
    for (const sum of sums) for (const name of ["least", "mean", "most"]) sum[name].push(sum[name].at(-1));
    return { xs, sums };
  };

  const activity = (figure) => {
    const a = convoy.page.activity;
    const said = figure.querySelector(".said");
    const x = [...a.from_ns, a.end_ns];
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
      if (u.cursor.idx === null || u.cursor.idx === undefined) return;
      const i = d3.bisectRight(x, u.posToVal(u.cursor.left, "x")) - 1;
      if (i < 0 || i >= a.low.length) return;
      const low = a.low[i] === null ? "" : `; meanwhile: ${convoy.text(a.low[i])}`;
      said.textContent = `at ${moment(x[i], x[1] - x[0])}: ${a.working[i].toFixed(1)} working, ${a.active[i].toFixed(1)} active, ` +
        `${a.running[i].toFixed(1)} on a CPU${low}`;
    };
    const data = (range, width) => {
      const most = Math.max(20, Math.floor((width - 60) / COLUMN));
      const { xs, sums: [active, working, running] } = convoy.columns(x, [a.active, a.working, a.running], range, most);
      return [xs, active.mean, working.mean, running.mean, working.most, working.least];
    };
    const room = figure.querySelector(".drawing");
    let width = Math.max(240, room.clientWidth), shown = [x[0], x[x.length - 1]];
    const again = (u) => {
      const { min, max } = u.scales.x;
      if (min === null || (u.width === width && min === shown[0] && max === shown[1])) return;
      width = u.width;
      shown = [min, max];
      u.setData(data(shown, width), false);
    };
    const bound = { paths: stepped, stroke: () => "transparent", class: "bound" };
    const chart = plot(figure, {
      scales: { x: { time: false }, y: { range: (_, __, max) => [0, Math.max(1, a.cpus, max) * 1.05] } },
      bands: [{ series: [4, 5], fill: () => colour("running-soft") }],
      axes: [axis(times), axis({ label: "threads", size: 56 })],
      series: [
        { label: "time", value: (_, ns) => (ns === null ? "" : moment(ns, x[1] - x[0])) },
        // Broad, so that it is seen beside those that work, who are most of them in most programs.
        series("active", "active", { paths: stepped, width: 4 }),
        series("working", "running", { paths: stepped, filled: true }),
        series("on a CPU", "cpu", { paths: stepped }),
        series("most working", "running", bound),
        series("least working", "running", bound),
      ],
      hooks: { drawClear: [shade], setCursor: [tell], setScale: [(u, key) => key === "x" && again(u)], setSize: [again] },
    }, data(shown, width));
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
