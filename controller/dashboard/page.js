// Watches whether a page is still brought up to date, and says so over its whole width when it is not.
//
// The controller calls `strandline.fresh(trouble)` after every update, with what is wrong with its streams, and `strandline.failed(why)` where one failed. A controller
// that is dead or hangs calls neither: this script needs nothing from it, nor from the library that draws the page.
(() => {
  const bounds = document.currentScript.dataset;
  const [SILENT_MS, LOST_MS, PROBE_MS] = [bounds.silentMs, bounds.lostMs, bounds.probeMs].map(Number);
  const [SIGN_IN, SIGNED_IN] = [bounds.signIn, bounds.signedIn];
  const TICK_MS = 250;
  const OWN_ZONE = /(^|; )strandline_zone=/.test(document.cookie);
  const NO_ANSWER = "The controller does not answer.";
  const BEFORE = "The data below is from before, and may be wrong by now; the page goes on by itself.";
  const ICON =
    "data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 9 9'><circle cx='4.5' cy='4.5' r='4' fill='%23dc2626'/></svg>";

  let freshAt = Date.now(); // when the page was last brought up to date; until then, when it was loaded
  let waitsFrom = freshAt; // from then on something should have come
  let tickedAt = freshAt;
  let probedAt = 0;
  let answers = 0; // of a controller that answers, while the page's own channel stays closed
  let why = null; // the last update failed because of this
  let socket = null;
  let wasConnected = false;
  let shown = null; // the text of the alarm; null: there is none
  let [titleBefore, iconBefore] = ["", ""];

  const bar = document.createElement("div");
  const text = document.createElement("div"); // a screen reader says it once
  const age = document.createElement("div"); // and leaves out this one, which changes every second
  bar.id = "sl-alarm";
  bar.hidden = true;
  text.setAttribute("role", "alert");
  bar.append(text, age);
  document.addEventListener("DOMContentLoaded", () => document.body.prepend(bar));

  let [isGone, goesElsewhere] = [false, false]; // what the page shows was deleted; the page is about to go elsewhere

  let troubled = ""; // what is wrong with the streams of this page, as the title and the icon say it
  let [titleOfCalm, iconOfCalm] = ["", ""];

  const icon = () => document.querySelector("link[rel~=icon]");

  function raise(said) {
    if (shown === null) {
      [titleBefore, iconBefore] = [document.title, icon()?.href];
      document.title = `⚠ no answer · ${titleBefore}`;
      icon()?.setAttribute("href", ICON);
      document.body.classList.add("sl-stale");
      bar.hidden = false;
    }
    if (shown !== said) text.textContent = shown = said;
    const from = new Date(freshAt);
    const at = OWN_ZONE ? from.toTimeString().slice(0, 8) : `${from.toISOString().slice(11, 19)} UTC`;
    age.textContent = `${ageOf(Date.now() - freshAt)} old, from ${at}`;
    document.documentElement.style.setProperty("--sl-alarm", `${bar.offsetHeight}px`);
  }

  function lower() {
    if (shown === null) return;
    shown = null;
    document.title = titleBefore;
    if (iconBefore) icon()?.setAttribute("href", iconBefore);
    document.body.classList.remove("sl-stale");
    document.documentElement.style.removeProperty("--sl-alarm");
    bar.hidden = true;
  }

  function tell(trouble) {
    if (trouble === troubled) return;
    if (troubled === "") [titleOfCalm, iconOfCalm] = [document.title, icon()?.href];
    troubled = trouble;
    document.title = trouble === "" ? titleOfCalm : `⚠ ${trouble} · ${titleOfCalm}`;
    if (iconOfCalm) icon()?.setAttribute("href", trouble === "" ? iconOfCalm : ICON);
  }

  function ageOf(milliseconds) {
    const seconds = Math.round(milliseconds / 1000);
    if (seconds < 120) return `${seconds} s`;
    const minutes = Math.floor(seconds / 60);
    return minutes < 120 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
  }

  // The library loads a page again where a connection takes too long. Of a machine that is gone the browser would then show
  // its own error for good: so the page is loaded again only once a controller answers.
  function takeChannel() {
    socket = window.socket;
    socket.off("connect_error");
    socket.on("connect_error", (error) => {
      if (error.message === "timeout") socket.io.opts.transports = ["polling", "websocket"];
      else if (error.message === "Implicit handshake failed") location.reload();
    });
  }

  async function probe() {
    probedAt = Date.now();
    let status = 0;
    try {
      status = (await fetch(SIGNED_IN, { cache: "no-store", signal: AbortSignal.timeout(PROBE_MS) })).status;
    } catch {} // no answer
    if (status === 401) strandline.signIn();
    answers = status === 204 && !socket?.connected ? answers + 1 : 0;
    if (answers < 2) return;
    console.log("reloading because a controller answers, and the channel stays closed");
    location.reload();
  }

  function tick() {
    const now = Date.now();
    // While the tab is hidden, or the computer sleeps, nothing is asked for.
    if (document.hidden || now - tickedAt > LOST_MS) waitsFrom = now;
    tickedAt = now;
    if (socket === null && window.socket) takeChannel();
    const connected = Boolean(socket?.connected);
    wasConnected ||= connected;
    const patience = wasConnected && !connected ? LOST_MS : SILENT_MS;
    const silent = now - Math.max(freshAt, waitsFrom) > patience;
    if (silent) raise(`${NO_ANSWER} ${BEFORE}`);
    else if (why !== null) raise(`${why} ${BEFORE}`);
    else if (!document.hidden) lower();
    if (silent && now - probedAt > PROBE_MS) probe();
  }

  window.strandline = {
    fresh(trouble = "") {
      freshAt = waitsFrom = Date.now();
      why = null;
      answers = 0;
      lower();
      tell(trouble);
    },
    failed(reason) {
      waitsFrom = Date.now(); // that was an answer as well
      why = reason;
      tick();
    },
    // Choices of the visitor, in the address: it is there again after a reload, and after Back.
    keep(choices) {
      const address = new URL(location.href);
      for (const [name, value] of Object.entries(choices)) {
        if (value === null) address.searchParams.delete(name);
        else address.searchParams.set(name, value);
      }
      history.replaceState(history.state, "", address);
    },
    // What the page shows was deleted: loaded again, it says so. A page that has deleted it goes elsewhere in place of that.
    gone() {
      isGone = true;
      if (!goesElsewhere) location.reload();
    },
    leaves(does) {
      goesElsewhere = does;
      if (isGone) strandline.gone();
    },
    signIn() {
      location.assign(`${SIGN_IN}?ended=1&next=${encodeURIComponent(location.pathname + location.search)}`);
    },
  };
  window.addEventListener("pageshow", (event) => event.persisted && location.reload());
  document.addEventListener("visibilitychange", () => (waitsFrom = Date.now()));
  setInterval(tick, TICK_MS);
})();
