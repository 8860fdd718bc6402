"use strict";
// A browser in the C locale says so where a language is meant, and the libraries that ask it for numbers in that
// language stop there.
try {
  new Intl.NumberFormat(navigator.language);
} catch {
  Object.defineProperty(navigator, "language", { value: "en", configurable: true });
}
