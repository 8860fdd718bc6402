"use strict";
// What the page carries, unpacked. All other scripts add to this one name.
const convoy = { printing: false };
// A role of more processes is one row at first.
convoy.PROCESSES = 4;

// Draws something as wide as it has room, now and whenever that changes; a printed page is narrower than most screens.
convoy.fits = [];
convoy.fit = (room, draw) => {
  convoy.fits.push(draw);
  new ResizeObserver(draw).observe(room);
};

(() => {
  // Letters, compressed bytes, bytes.
  const unpack = async (id) => {
    const text = document.getElementById(id).textContent.trim();
    if (text === "") return new Uint8Array(0);
    const letters = atob(text);
    const bytes = new Uint8Array(letters.length);
    for (let i = 0; i < letters.length; i++) bytes[i] = letters.charCodeAt(i);
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  };

  // Numbers of seven bits a byte, lowest first; they may be longer than what shifts can do.
  const reader = (bytes) => {
    let at = 0;
    return {
      byte: () => bytes[at++],
      number: () => {
        let value = 0, scale = 1, byte;
        do {
          byte = bytes[at++];
          value += (byte & 0x7f) * scale;
          scale *= 128;
        } while (byte & 0x80);
        return value;
      },
    };
  };

  convoy.DID = ["running", "in a waiting loop", "woken", "preempted", "waiting"];
  convoy.RUNNING = 0;
  convoy.SPINNING = 1;
  convoy.WOKEN = 2;
  convoy.PREEMPTED = 3;
  convoy.WAITING = 4;
  const MIXED = 8;

  // One lane: columns, so that a million intervals need no objects.
  const lane = (from) => {
    const n = from.number();
    const lane = {
      n,
      start: new Float64Array(n), // nanoseconds since the first event
      end: new Float64Array(n),
      did: new Uint8Array(n),
      row: new Int32Array(n), // -1 = none
      wake: new Int32Array(n),
      shares: new Map(), // of joined intervals: running, spinning, ready, waiting
    };
    let at = 0;
    for (let i = 0; i < n; i++) {
      at += from.number();
      lane.start[i] = at;
      at += from.number();
      lane.end[i] = at;
      const did = from.number();
      lane.did[i] = did & ~MIXED;
      lane.row[i] = from.number() - 1;
      lane.wake[i] = from.number() - 1;
      if (did & MIXED) {
        const [running, spinning, ready] = [from.byte() / 255, from.byte() / 255, from.byte() / 255];
        lane.shares.set(i, [running, spinning, ready, Math.max(0, 1 - running - spinning - ready)]);
      }
    }
    return lane;
  };

  // Shares of an interval's time: running, spinning, ready, waiting.
  const PURE = [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 0], [0, 0, 0, 1]];
  convoy.shares = (lane, i) => lane.shares.get(i) ?? PURE[lane.did[i]];

  convoy.load = async () => {
    const page = JSON.parse(new TextDecoder().decode(await unpack("page-data")));
    convoy.page = page;
    convoy.text = (id) => page.strings[id] ?? "";
    if (page.lanes) {
      const from = reader(await unpack("lane-data"));
      convoy.lanes = page.threads.names.map(() => lane(from));
    }
  };

  // The interval of a lane at a time, or the last one before it; -1 = none.
  convoy.at = (lane, ns) => d3.bisectRight(lane.start, ns, 0, lane.n) - 1;

  // Threads that wait for each object, by piece of the run: all of them in one pass.
  convoy.waits = (pieces) => {
    const { lanes, page } = convoy;
    const width = Math.max(1, page.lanes.end_ns) / pieces;
    const sums = new Map(page.locks.map((lock) => [lock.object, new Float64Array(pieces)]));
    for (const lane of lanes) {
      for (let i = 0; i < lane.n; i++) {
        if (lane.did[i] !== convoy.WAITING || lane.row[i] < 0) continue;
        const sum = sums.get(page.lanes.offs[lane.row[i]][1]);
        if (!sum) continue;
        const share = convoy.shares(lane, i)[3] / width;
        const from = lane.start[i], to = lane.end[i];
        const last = Math.min(pieces - 1, Math.floor(to / width));
        for (let p = Math.floor(from / width); p <= last; p++) {
          const overlap = Math.min(to, (p + 1) * width) - Math.max(from, p * width);
          if (overlap > 0) sum[p] += overlap * share;
        }
      }
    }
    return { width, sums };
  };

  // Who held a lock while others waited for it, by piece of the run: a map from places among the lanes to time, -1
  // for wakers that are no thread. Holds themselves are not recorded with their times, but whoever lets a waiter in has
  // held the lock until then, back to when the waiter before it was let in.
  convoy.holders = (object, pieces) => {
    const { lanes, page } = convoy;
    const width = Math.max(1, page.lanes.end_ns) / pieces;
    const waits = [];
    for (const lane of lanes) {
      for (let i = 0; i < lane.n; i++) {
        if (lane.did[i] !== convoy.WAITING || lane.shares.has(i) || lane.row[i] < 0) continue;
        if (page.lanes.offs[lane.row[i]][1] !== object) continue;
        const wake = page.lanes.wakes[lane.wake[i]];
        // Of a wait that the end of the run has cut short nobody knows whom it was for.
        if (wake) waits.push({ start: lane.start[i], end: lane.end[i], by: wake[0] ?? -1 });
      }
    }
    waits.sort((a, b) => a.end - b.end);
    // Since when somebody waited, who waits at least until the i-th wait's end.
    let since = Infinity;
    for (let i = waits.length - 1; i >= 0; i--) waits[i].since = since = Math.min(since, waits[i].start);
    const sums = new Map();
    let before = 0, total = 0;
    for (const { end, by, since } of waits) {
      const from = Math.max(before, since);
      before = end;
      if (end <= from) continue;
      total += end - from;
      if (!sums.has(by)) sums.set(by, new Float64Array(pieces));
      const sum = sums.get(by);
      const last = Math.min(pieces - 1, Math.floor(end / width));
      for (let p = Math.floor(from / width); p <= last; p++) {
        sum[p] += Math.max(0, Math.min(end, (p + 1) * width) - Math.max(from, p * width));
      }
    }
    return { width, sums, total };
  };
})();
