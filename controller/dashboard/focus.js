// Keeps the keyboard's focus on what the library moves, such as a row of a table whose order has changed. The browser takes
// the focus away from whatever is moved, and the next Tab would begin from where that was.
(() => {
  let lost = null; // what has just lost the focus, to nothing else

  document.addEventListener("focusout", (event) => {
    if (event.relatedTarget !== null) return;
    lost = event.target;
    setTimeout(() => (lost = null)); // nothing moved it: the visitor left it
  });

  new MutationObserver((changes) => {
    if (lost === null || !lost.isConnected || document.activeElement !== document.body) return;
    if (changes.some((each) => [...each.addedNodes].some((added) => added.contains(lost)))) lost.focus({ preventScroll: true });
  }).observe(document.documentElement, { childList: true, subtree: true });
})();
