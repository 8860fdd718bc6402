"use strict";
// Numbers as the text of the page writes them, and the colours of the style sheet.
(() => {
  const digits = (value) => value.toFixed(value < 9.995 ? 2 : value < 99.95 ? 1 : 0);

  convoy.duration = (ns) => {
    if (!(ns >= 0)) return "?";
    if (ns < 999.5) return `${ns.toFixed(0)} ns`;
    if (ns < 999.5e3) return `${digits(ns / 1e3)} us`;
    if (ns < 999.5e6) return `${digits(ns / 1e6)} ms`;
    return `${digits(ns / 1e9)} s`;
  };

  // A point in time, as exact as the picture is: `step` is what a tick or a piece is worth.
  convoy.moment = (ns, step) => {
    const [scale, unit] = step >= 1e8 ? [1e9, "s"] : step >= 1e5 ? [1e6, "ms"] : step >= 100 ? [1e3, "us"] : [1, "ns"];
    let places = 0;
    while (places < 3 && Math.abs((step / scale) * 10 ** places - Math.round((step / scale) * 10 ** places)) > 1e-6) places++;
    return `${(ns / scale).toFixed(places)} ${unit}`;
  };

  convoy.count = (n) => (n < 1e4 ? n.toLocaleString("en") : n < 1e6 ? `${digits(n / 1e3)} k` : `${digits(n / 1e6)} M`);
  convoy.percent = (share) => `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)} %`;

  convoy.colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
})();
