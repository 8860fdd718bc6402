"use strict";
// Draws what comes into view, and all that is printed before the page is.
(async () => {
  // Until its data is unpacked the page has not loaded: what prints it as soon as it has (`chromium --headless
  // --print-to-pdf`) would print it without pictures. A document that is being written keeps the one around it loading.
  const load = async () => {
    const hold = document.createElement("iframe");
    hold.hidden = true;
    document.body.append(hold);
    hold.contentDocument?.open();
    try {
      await convoy.load();
    } finally {
      hold.contentDocument?.close();
      hold.remove();
    }
  };
  try {
    await load();
  } catch (error) {
    // The text of the page says everything without the pictures.
    document.body.classList.add("undrawn");
    console.error(error);
    return;
  }
  const drawn = new Set();
  const draw = (figure) => {
    if (drawn.has(figure)) return;
    drawn.add(figure);
    try {
      if (figure.matches(".curve")) convoy.curves[figure.dataset.curve](figure);
      else if (figure.id === "timeline") convoy.timeline(figure);
      else if (figure.id === "flame") convoy.flame(figure);
    } catch (error) {
      // One picture less; the others are drawn.
      figure.classList.add("undrawn");
      console.error(error);
    }
  };
  const figures = [...document.querySelectorAll("figure.curve, section#timeline, section#flame")];
  const watch = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) draw(entry.target);
  }, { rootMargin: "300px" });
  figures.forEach((figure) => watch.observe(figure));

  window.addEventListener("beforeprint", () => {
    document.querySelectorAll("details:not(.unprinted)").forEach((part) => { part.open = true; });
    figures.filter((figure) => !figure.closest(".unprinted")).forEach(draw);
    // The page is laid out anew for the paper, but what is drawn would keep the width of the screen.
    convoy.printing = true;
    document.body.classList.add("printing");
    convoy.fits.forEach((fit) => fit());
  });
  window.addEventListener("afterprint", () => {
    convoy.printing = false;
    document.body.classList.remove("printing");
    convoy.fits.forEach((fit) => fit());
  });

  // A link to a part that is folded opens it.
  const open = () => {
    const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    for (let part = target; part; part = part.parentElement) if (part.matches("details")) part.open = true;
    target.scrollIntoView();
  };
  window.addEventListener("hashchange", open);
  open();
  document.body.classList.add("ready");
})();
