"use strict";
// Zooms both runs together, and lets sliders choose among answers that the page lists.
(() => {
  const UNITS = 1e6;
  const TICKS = 7;

  // A point in time, in the unit that the step of the axis calls for.
  const moment = (ns, step) => {
    const units = [[1e8, 1e9, "s"], [1e5, 1e6, "ms"], [100, 1e3, "us"], [0, 1, "ns"]];
    const [, scale, unit] = units.find(([least]) => step >= least);
    const places = Math.max(0, -Math.floor(Math.log10(step / scale) + 1e-9));
    return `${(ns / scale).toFixed(Math.min(places, 3))} ${unit}`;
  };

  const zoom = (section) => {
    const runs = [...section.querySelectorAll(".lanes-of-run")];
    const ticks = section.querySelector(".ticks");
    const length = Number(ticks.dataset.length);
    let from = 0, width = UNITS;
    const show = () => {
      width = Math.min(UNITS, Math.max(UNITS / 1e4, width));
      from = Math.min(UNITS - width, Math.max(0, from));
      for (const run of runs) {
        const height = run.viewBox.baseVal.height;
        run.setAttribute("viewBox", `${from} 0 ${width} ${height}`);
      }
      const start = (from / UNITS) * length, shown = (width / UNITS) * length;
      const rough = shown / TICKS, power = 10 ** Math.floor(Math.log10(rough));
      const step = power * [1, 2, 5, 10].find((n) => n * power >= rough);
      const labels = [];
      for (let at = Math.ceil(start / step) * step; at < start + shown * 0.96; at += step) {
        const label = document.createElement("span");
        label.style.left = `${(100 * (at - start)) / shown}%`;
        label.textContent = moment(at, step);
        labels.push(label);
      }
      ticks.replaceChildren(...labels);
    };
    // Keeps the moment under the pointer where it is.
    const scale = (factor, share = 0.5) => {
      const wider = Math.min(UNITS, Math.max(UNITS / 1e4, width * factor));
      from += (width - wider) * share;
      width = wider;
      show();
    };
    show();
    section.querySelector(".tools").hidden = false;
    section.querySelectorAll("[data-zoom]").forEach((button) => {
      button.addEventListener("click", () => {
        if (button.dataset.zoom === "all") [from, width] = [0, UNITS];
        else scale(button.dataset.zoom === "in" ? 0.5 : 2);
        show();
      });
    });
    for (const run of runs) {
      const share = (event) => {
        const box = run.getBoundingClientRect();
        return (event.clientX - box.left) / box.width;
      };
      run.addEventListener("wheel", (event) => {
        if (!event.ctrlKey && !event.shiftKey) return;
        event.preventDefault();
        scale(event.deltaY + event.deltaX > 0 ? 1.25 : 0.8, share(event));
      }, { passive: false });
      let held = null;
      run.addEventListener("pointerdown", (event) => {
        held = from + width * share(event);
        run.setPointerCapture(event.pointerId);
      });
      run.addEventListener("pointermove", (event) => {
        if (held === null) return;
        from = held - width * share(event);
        show();
      });
      for (const end of ["pointerup", "pointercancel"]) {
        run.addEventListener(end, () => { held = null; });
      }
    }
  };

  const dial = (room) => {
    const input = room.querySelector("input");
    const points = [...room.querySelectorAll(".points > li")];
    const show = () => {
      points.forEach((point, i) => { point.hidden = i !== Number(input.value); });
      input.setAttribute("aria-valuetext", points[Number(input.value)].innerText);
    };
    input.hidden = false;
    input.addEventListener("input", show);
    show();
    // Paper has no sliders: it gets all points.
    window.addEventListener("beforeprint", () => {
      points.forEach((point) => { point.hidden = false; });
    });
    window.addEventListener("afterprint", show);
  };

  const runs = document.getElementById("runs");
  if (runs) zoom(runs);
  document.querySelectorAll(".dial").forEach(dial);
  window.addEventListener("beforeprint", () => {
    document.querySelectorAll("details").forEach((part) => { part.open = true; });
  });
  document.body.classList.add("ready");
})();
