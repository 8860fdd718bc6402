"use strict";
// The timeline: a lane a thread on a canvas, with d3's scale and zoom. Only what is in view is drawn, and what is
// smaller than a pixel is added up first.
(() => {
  const GUTTER = 230; // of names, at most
  const GUTTER_SHARE = 0.38; // of the width
  const AXIS = 24;
  const HEAD = 22;
  const LANE = 17;
  const MANY = 200; // with more threads than this, large groups are folded at first
  const LARGE = 24;
  const SHEET = 900; // pixels of a printed page's height
  const { duration, moment, colour } = convoy;

  // What is told apart by colour, in the order in which it is stacked.
  const KINDS = ["running", "spinning", "ready", "lock", "other"];
  const LEGEND = ["running", "waiting in a loop", "wants a CPU", "waits for others", "idle or not known"];

  convoy.timeline = (section) => {
    const { page, lanes, text } = convoy;
    const view = section.querySelector(".lanes");
    const canvas = view.querySelector("canvas");
    const context = canvas.getContext("2d");
    const said = section.querySelector(".said");
    const choice = section.querySelector("[data-do=object]");
    const end = Math.max(1, page.lanes.end_ns);
    let gutter = GUTTER;
    const full = d3.scaleLinear([0, end], [gutter, gutter + 100]);
    let x = full;
    let hues = {};
    let wanted = null; // the object to point out
    let chosen = null; // { thread, i, ns }: an interval, and the moment that arrows are about

    // Groups, each with its threads: the order of the lanes.
    let first = 0;
    const groups = page.threads.groups.map(([name, n, processes]) => {
      const threads = d3.range(first, first + n).filter((t) => lanes[t].n > 0);
      const group = { name: text(name), threads, open: processes <= convoy.PROCESSES };
      first += n;
      return group;
    }).filter((group) => group.threads.length > 0);
    const all = d3.sum(groups, (group) => group.threads.length);
    if (all > MANY) for (const group of groups) group.open &&= group.threads.length <= LARGE;
    const groupOf = new Map(groups.flatMap((group) => group.threads.map((t) => [t, group])));

    // Most threads of a group at a time: of a hundred compilers of a build a few run at once.
    for (const group of groups) {
      const changes = group.threads.flatMap((t) => [[lanes[t].start[0], 1], [lanes[t].end[lanes[t].n - 1], -1]]);
      changes.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
      group.atOnce = Math.max(1, d3.max(d3.cumsum(changes, (change) => change[1])));
    }

    // Rows from top to bottom with their place, and where each thread is.
    let rows = [], places = new Map(), height = 0;
    const arrange = () => {
      rows = [];
      places = new Map();
      let y = 0;
      for (const group of groups) {
        rows.push({ group, y, h: HEAD });
        for (const t of group.threads) places.set(t, y + HEAD / 2);
        y += HEAD;
        if (!group.open) continue;
        for (const t of group.threads) {
          rows.push({ thread: t, y, h: LANE });
          places.set(t, y + LANE / 2);
          y += LANE;
        }
      }
      height = y;
      resize();
    };

    const resize = () => {
      const ratio = window.devicePixelRatio || 1;
      // On paper nothing scrolls: as many lanes as a sheet has room for.
      const most = convoy.printing ? SHEET : Math.max(220, Math.round(window.innerHeight * 0.7));
      const room = Math.min(height + AXIS + 4, most);
      view.style.height = `${room}px`;
      canvas.style.height = `${room}px`;
      canvas.style.marginBottom = `${convoy.printing ? 0 : Math.max(0, height + AXIS - room)}px`;
      // Less than all where there is a scroll bar now.
      const width = view.clientWidth;
      gutter = Math.min(GUTTER, Math.round(width * GUTTER_SHARE));
      canvas.width = width * ratio;
      canvas.height = room * ratio;
      canvas.style.width = `${width}px`;
      full.range([gutter, Math.max(gutter + 50, width - 8)]);
      zoom.extent([[gutter, 0], [full.range()[1], room]]).translateExtent([[gutter, 0], [full.range()[1], room]]);
      x = d3.zoomTransform(canvas).rescaleX(full);
      draw();
    };

    let due = false;
    const draw = () => {
      if (convoy.printing) return paint();
      if (due) return;
      due = true;
      requestAnimationFrame(() => {
        due = false;
        paint();
      });
    };

    const kind = (lane, i) => {
      const did = lane.did[i];
      if (did === convoy.RUNNING) return 0;
      if (did === convoy.SPINNING) return 1;
      if (did !== convoy.WAITING) return 2;
      const off = page.lanes.offs[lane.row[i]];
      if (!off) return 4;
      return (wanted === null ? off[3] === 1 : off[1] === wanted) ? 3 : 4;
    };

    // Adds the shares of an interval, times `weight`.
    const add = (sums, lane, i, weight) => {
      if (!lane.shares.has(i)) {
        sums[kind(lane, i)] += weight;
        return;
      }
      const shares = convoy.shares(lane, i);
      sums[0] += shares[0] * weight;
      sums[1] += shares[1] * weight;
      sums[2] += shares[2] * weight;
      sums[kind(lane, i) === 3 ? 3 : 4] += shares[3] * weight;
    };

    // A column of stacked shares.
    const stack = (sums, whole, left, width, y, h) => {
      let at = y + h;
      for (let k = 0; k < sums.length; k++) {
        if (sums[k] <= 0) continue;
        const part = h * Math.min(1, sums[k] / whole);
        at -= part;
        context.fillStyle = hues[KINDS[k]];
        context.fillRect(left, at, width, part);
      }
    };

    const paintLane = (lane, y, h, from, to) => {
      const scale = (full.range()[1] - gutter) / (to - from);
      const pixel = 1 / scale;
      const sums = new Float64Array(5);
      let column = -1, covered = 0;
      const flush = () => {
        if (covered > 0) stack(sums, covered, gutter + column, 1, y, h);
        sums.fill(0);
        covered = 0;
      };
      for (let i = Math.max(0, convoy.at(lane, from)); i < lane.n && lane.start[i] < to; i++) {
        const a = Math.max(from, lane.start[i]), b = Math.min(to, lane.end[i]);
        if (b <= a) continue;
        const left = (a - from) * scale;
        if (b - a < 1.5 * pixel) {
          if (Math.floor(left) !== column) flush();
          column = Math.floor(left);
          add(sums, lane, i, b - a);
          covered += b - a;
          continue;
        }
        flush();
        const l = Math.round(left), w = Math.max(1, Math.round((b - from) * scale) - l);
        if (lane.shares.has(i)) {
          add(sums, lane, i, 1);
          stack(sums, 1, gutter + l, w, y, h);
          sums.fill(0);
        } else {
          context.fillStyle = hues[KINDS[kind(lane, i)]];
          context.fillRect(gutter + l, y, w, h);
        }
      }
      flush();
    };

    // What the threads of a group did, added up by pixel.
    const addGroup = (group, from, to, width) => {
      const pixel = (to - from) / width;
      const sums = KINDS.map(() => new Float64Array(width));
      const shares = new Float64Array(5);
      for (const t of group.threads) {
        const lane = lanes[t];
        for (let i = Math.max(0, convoy.at(lane, from)); i < lane.n && lane.start[i] < to; i++) {
          const a = Math.max(from, lane.start[i]) - from, b = Math.min(to, lane.end[i]) - from;
          if (b <= a) continue;
          const joined = lane.shares.has(i);
          const only = joined ? -1 : kind(lane, i);
          if (joined) {
            shares.fill(0);
            add(shares, lane, i, 1);
          }
          const first = Math.floor(a / pixel), last = Math.min(width - 1, Math.floor(b / pixel));
          for (let p = first; p <= last; p++) {
            const part = Math.min(b, (p + 1) * pixel) - Math.max(a, p * pixel);
            if (only >= 0) sums[only][p] += part;
            else for (let k = 0; k < 5; k++) sums[k][p] += shares[k] * part;
          }
        }
      }
      return sums;
    };

    // Adding up is the dear part: it is kept until the view or what is pointed out changes.
    const paintGroup = (group, y, h, from, to) => {
      const width = Math.max(1, Math.floor(full.range()[1] - gutter));
      const key = `${from} ${to} ${width} ${wanted}`;
      if (group.key !== key) {
        group.sums = addGroup(group, from, to, width);
        group.key = key;
      }
      const whole = group.atOnce * (to - from) / width;
      const column = new Float64Array(5);
      for (let p = 0; p < width; p++) {
        for (let k = 0; k < 5; k++) column[k] = group.sums[k][p];
        stack(column, whole, gutter + p, 1, y, h);
      }
    };

    const clip = (words, width) => {
      if (context.measureText(words).width <= width) return words;
      let n = words.length;
      while (n > 4 && context.measureText(`${words.slice(0, n)}..`).width > width) n--;
      return `${words.slice(0, n)}..`;
    };

    const paintAxis = (width) => {
      const ticks = x.ticks(Math.max(2, Math.floor((width - gutter) / 110)));
      const step = ticks.length > 1 ? ticks[1] - ticks[0] : end;
      context.textAlign = "center";
      context.fillStyle = hues.text;
      context.strokeStyle = hues.grid;
      context.lineWidth = 1;
      for (const tick of ticks) {
        const at = Math.round(x(tick)) + 0.5;
        context.fillText(moment(tick, step), Math.min(at, width - 30), 14);
        context.beginPath();
        context.moveTo(at, AXIS - 5);
        context.lineTo(at, AXIS);
        context.stroke();
      }
      context.textAlign = "left";
    };

    // From the waker's lane to the woken one's, at the time of the wake-up.
    const arrow = (from, to, ns, strong) => {
      const at = x(ns);
      if (at < gutter || from === to) return;
      context.strokeStyle = context.fillStyle = strong ? hues.text : hues.arrow;
      context.lineWidth = strong ? 2 : 1;
      context.beginPath();
      context.moveTo(at, from);
      context.lineTo(at, to);
      context.stroke();
      const tip = to > from ? -6 : 6;
      context.beginPath();
      context.moveTo(at, to);
      context.lineTo(at - 4, to + tip);
      context.lineTo(at + 4, to + tip);
      context.fill();
    };

    const screen = (t) => AXIS + places.get(t) - view.scrollTop;

    const paintChosen = (height) => {
      const { thread, i, ns } = chosen;
      const lane = lanes[thread];
      context.strokeStyle = hues.text;
      context.lineWidth = 1;
      context.setLineDash([4, 3]);
      context.beginPath();
      context.moveTo(x(ns), AXIS);
      context.lineTo(x(ns), height);
      context.stroke();
      context.setLineDash([]);
      // Everybody who waits at that moment, and who ended it.
      let left = 500;
      for (const t of places.keys()) {
        const other = lanes[t];
        const at = convoy.at(other, ns);
        if (at < 0 || other.wake[at] < 0 || other.end[at] < ns || t === thread) continue;
        const waker = page.lanes.wakes[other.wake[at]][0];
        if (waker !== null && places.has(waker) && left-- > 0) arrow(screen(waker), screen(t), other.end[at], false);
      }
      if (lane.wake[i] >= 0) {
        const waker = page.lanes.wakes[lane.wake[i]][0];
        if (waker !== null && places.has(waker)) arrow(screen(waker), screen(thread), lane.end[i], true);
      }
      const l = Math.max(gutter, x(lane.start[i])), r = Math.max(l + 2, x(lane.end[i]));
      context.lineWidth = 2;
      context.strokeStyle = hues.text;
      if (r > gutter && groupOf.get(thread).open) context.strokeRect(l, screen(thread) - LANE / 2 + 1, r - l, LANE - 2);
    };

    const paint = () => {
      const ratio = window.devicePixelRatio || 1;
      const width = canvas.width / ratio, room = canvas.height / ratio;
      for (const name of [...KINDS, "text", "grid", "arrow", "page", "dim"]) hues[name] = colour(name);
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      context.fillStyle = hues.page;
      context.fillRect(0, 0, width, room);
      context.font = "12px system-ui, sans-serif";
      const [from, to] = x.domain();
      const top = view.scrollTop;
      for (const row of rows) {
        const y = AXIS + row.y - top;
        if (y + row.h < AXIS || y > room) continue;
        if (row.group) {
          context.fillStyle = hues.text;
          const n = row.group.threads.length;
          context.fillText(clip(`${row.group.open ? "▾" : "▸"} ${row.group.name}`, gutter - 52), 2, y + 15);
          context.textAlign = "right";
          context.fillText(`${n}`, gutter - 8, y + 15);
          context.textAlign = "left";
          if (n > 1 || !row.group.open) paintGroup(row.group, y + 3, row.h - 6, from, to);
        } else {
          context.fillStyle = hues.dim;
          context.fillText(clip(text(page.threads.names[row.thread]), gutter - 26), 16, y + 13);
          paintLane(lanes[row.thread], y + 2, row.h - 4, from, to);
        }
      }
      if (chosen) paintChosen(room);
      context.fillStyle = hues.page;
      context.fillRect(0, 0, width, AXIS);
      context.fillStyle = hues.text;
      paintAxis(width);
      if (!convoy.printing || height + AXIS <= room) return;
      const cut = rows.filter((row) => AXIS + row.y + row.h > room - HEAD).length;
      context.clearRect(0, room - HEAD, width, HEAD);
      context.fillText(`and ${cut} more, for which the paper has no room`, 2, room - 6);
    };

    // What is told of an interval: for people who see it, and for those who do not.
    const tell = () => {
      const { thread, i } = chosen;
      const lane = lanes[thread];
      const length = lane.end[i] - lane.start[i];
      const words = [`${text(page.threads.names[thread])}: ${convoy.DID[lane.did[i]]}`];
      const row = lane.row[i];
      if (row >= 0 && lane.did[i] <= convoy.SPINNING) words.push(` in ${text(page.lanes.slices[row])}`);
      if (row >= 0 && lane.did[i] === convoy.WAITING) {
        const [what, , where] = page.lanes.offs[row];
        words.push(` (${text(what)}) in ${text(where)}`);
      }
      words.push(`, ${duration(length)} from ${moment(lane.start[i], Math.max(1, length / 10))}`);
      const mix = lane.shares.get(i);
      if (mix) {
        const names = ["running", "in waiting loops", "wanting a CPU", "waiting"];
        words.push(`; several joined: ${mix.map((share, k) => (share > 0.004 ? `${convoy.percent(share)} ${names[k]}` : "")).filter(Boolean).join(", ")}`);
      }
      if (lane.wake[i] >= 0) {
        const [waker, who, where] = page.lanes.wakes[lane.wake[i]];
        words.push(waker === null ? `; ended by ${text(who)}` : `; woken by ${text(page.threads.names[waker])} at ${text(where)}`);
      }
      said.textContent = words.join("");
    };

    const choose = (thread, i, ns) => {
      chosen = { thread, i, ns: ns ?? (lanes[thread].start[i] + lanes[thread].end[i]) / 2 };
      tell();
      draw();
    };

    // Brings what is chosen into view.
    const follow = () => {
      const { thread, i } = chosen;
      const group = groupOf.get(thread);
      if (!group.open) {
        group.open = true;
        arrange();
      }
      const y = places.get(thread);
      const room = view.clientHeight - AXIS;
      if (y < view.scrollTop + LANE || y > view.scrollTop + room - LANE) view.scrollTop = Math.max(0, y - room / 2);
      const [from, to] = x.domain();
      const lane = lanes[thread];
      if (chosen.ns < from || chosen.ns > to) show(chosen.ns - (to - from) / 2, chosen.ns + (to - from) / 2);
      else if (lane.end[i] - lane.start[i] < (to - from) / 400) draw();
    };

    const show = (from, to) => {
      const k = end / Math.max(1, to - from);
      const at = full(Math.max(0, Math.min(end, from)));
      d3.select(canvas).call(zoom.transform, d3.zoomIdentity.translate(gutter - k * at, 0).scale(k));
    };

    const toWaker = () => {
      if (!chosen) return;
      const lane = lanes[chosen.thread];
      const waker = lane.wake[chosen.i] >= 0 ? page.lanes.wakes[lane.wake[chosen.i]][0] : null;
      if (waker === null || lanes[waker].n === 0) {
        tell();
        const waits = lane.did[chosen.i] === convoy.WAITING;
        if (!waits) said.textContent += "; this is no wait for a thread: nobody had to end it";
        else if (waker === null) said.textContent += "; no thread of the recording is known to have ended it";
        else said.textContent += "; that thread has no lane";
        return;
      }
      const ns = lane.end[chosen.i];
      // At that very moment the waker ran.
      let i = Math.max(0, convoy.at(lanes[waker], ns));
      if (i > 0 && lanes[waker].start[i] === ns) i -= 1;
      choose(waker, i, ns);
      follow();
    };

    const move = (by) => {
      if (!chosen) return start();
      const i = Math.max(0, Math.min(lanes[chosen.thread].n - 1, chosen.i + by));
      choose(chosen.thread, i);
      follow();
    };

    const change = (by) => {
      if (!chosen) return start();
      const shown = groups.flatMap((group) => group.threads);
      const at = shown.indexOf(chosen.thread) + by;
      const thread = shown[Math.max(0, Math.min(shown.length - 1, at))];
      choose(thread, Math.max(0, convoy.at(lanes[thread], chosen.ns)), chosen.ns);
      follow();
    };

    const start = () => {
      const thread = groups[0]?.threads[0];
      if (thread === undefined) return;
      choose(thread, Math.max(0, convoy.at(lanes[thread], x.domain()[0])));
      follow();
    };

    const around = () => (chosen && chosen.ns >= x.domain()[0] && chosen.ns <= x.domain()[1] ? chosen.ns : d3.mean(x.domain()));
    const scaleBy = (factor) => {
      const [from, to] = x.domain();
      const at = around();
      show(at - (at - from) / factor, at + (to - at) / factor);
    };

    // To a nanosecond and no further.
    const zoom = d3.zoom().scaleExtent([1, Math.max(1, end / 100)])
      // A plain wheel scrolls the lanes and the page.
      .filter((event) => (event.type === "wheel" ? event.ctrlKey || event.metaKey || event.shiftKey : !event.button))
      .wheelDelta((event) => -(event.deltaY || event.deltaX) * (event.deltaMode === 1 ? 0.05 : 0.003))
      .clickDistance(4)
      .on("zoom", (event) => {
        x = event.transform.rescaleX(full);
        draw();
      });
    d3.select(canvas).call(zoom).on("dblclick.zoom", null);

    canvas.addEventListener("click", (event) => {
      if (event.defaultPrevented) return;
      const box = canvas.getBoundingClientRect();
      const [left, y] = [event.clientX - box.left, event.clientY - box.top - AXIS + view.scrollTop];
      const row = rows.find((row) => y >= row.y && y < row.y + row.h);
      if (!row) return;
      if (row.group) {
        row.group.open = !row.group.open;
        arrange();
        return;
      }
      if (left < gutter) return;
      const ns = x.invert(left);
      const i = convoy.at(lanes[row.thread], ns);
      if (i >= 0 && lanes[row.thread].end[i] >= ns) choose(row.thread, i, ns);
    });

    const keys = {
      ArrowLeft: () => move(-1), ArrowRight: () => move(1), ArrowUp: () => change(-1), ArrowDown: () => change(1),
      "+": () => scaleBy(2), "=": () => scaleBy(2), "-": () => scaleBy(0.5), 0: () => show(0, end),
      w: toWaker, Enter: toWaker,
    };
    view.addEventListener("keydown", (event) => {
      const act = keys[event.key];
      if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      act();
    });
    view.addEventListener("scroll", draw);
    const acts = { in: () => scaleBy(2), out: () => scaleBy(0.5), all: () => show(0, end), waker: toWaker };
    for (const button of section.querySelectorAll("button")) button.addEventListener("click", acts[button.dataset.do]);

    // Objects that have a part of the page.
    for (const lock of page.locks) {
      const title = document.querySelector(`#object-${lock.object} h3`);
      if (title) choice.add(new Option(title.textContent, lock.object));
    }
    const want = (object) => {
      wanted = object;
      choice.value = object === null ? "" : String(object);
      draw();
    };
    choice.addEventListener("change", () => want(choice.value === "" ? null : Number(choice.value)));
    for (const link of document.querySelectorAll("a[data-objects]")) {
      const object = link.dataset.objects.split(" ").map(Number).find((id) => [...choice.options].some((o) => o.value === String(id)));
      if (object !== undefined && link.dataset.objects !== "") link.addEventListener("click", () => want(object));
    }

    const legend = section.querySelector(".legend");
    KINDS.forEach((name, k) => {
      const mark = document.createElement("i");
      mark.style.background = `var(--${name})`;
      const item = document.createElement("span");
      item.append(mark, LEGEND[k]);
      legend.append(item, " ");
    });

    convoy.fit(section, resize);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
    arrange();
    convoy.view = { show, rows: () => rows, domain: () => x.domain() };
  };
})();
