// What a page does besides being shown: it follows the controller, asks before it acts, and keeps theme
// and time zone. Everything that it shows comes from the server.
"use strict";
(() => {
  const REFRESH_MS = 1000; // between two updates of a page that somebody looks at
  const SILENT_MS = 6000; // without an update, before the page says that the controller does not answer
  const LOST_MS = 2500; // the same where it cannot be reached
  const YEAR_S = 31536000;
  const byId = (id) => document.getElementById(id);
  const [dialog, toast, alarm] = [byId("ask"), byId("toast"), byId("alarm")];

  // -- changes a page in place: what is the same stays, and with it the focus, selections and what was typed -----------

  function change(old, now) {
    if (old.isEqualNode(now)) return;
    if (old.nodeType !== Node.ELEMENT_NODE) {
      old.data = now.data;
      return;
    }
    for (const { name } of [...old.attributes]) {
      if (!now.hasAttribute(name) && !(name === "open" && old.matches("details"))) old.removeAttribute(name);
    }
    for (const { name, value } of now.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    if (old.matches("input, select")) {
      if (old === document.activeElement) return;
      if (old.matches("input")) old.value = now.getAttribute("value") ?? "";
    }
    let place = old.firstChild;
    for (const child of [...now.childNodes]) {
      let same = child.id ? byId(child.id) : place;
      if (same?.parentNode !== old || same.nodeName !== child.nodeName || (same.id ?? "") !== (child.id ?? "")) same = null;
      if (same === null) {
        old.insertBefore(document.importNode(child, true), place);
        continue;
      }
      if (same === place) place = place.nextSibling;
      else old.insertBefore(same, place);
      change(same, child);
    }
    while (place !== null) {
      const next = place.nextSibling;
      place.remove();
      place = next;
    }
    if (old.matches("select")) old.value = now.value;
  }

  function show(main) {
    const focused = document.activeElement;
    change(byId("main"), main);
    if (document.activeElement !== focused && focused.isConnected) focused.focus({ preventScroll: true });
    document.title = main.dataset.title;
    const icon = `/static/icon${main.dataset.trouble ? "-bad" : ""}.svg`;
    if (byId("icon").getAttribute("href") !== icon) byId("icon").setAttribute("href", icon);
  }

  // -- follows the controller ------------------------------------------------------------------------------------------

  let freshAt = Date.now(); // when the page was last brought up to date; until then, when it was loaded
  let waitsFrom = freshAt; // from then on something should have come
  let watchedAt = freshAt;
  let asking = null; // the address for which it asks
  let [lost, why] = [false, null]; // whether the controller cannot be reached; why it could not bring the page up to date
  const isLive = () => byId("main").dataset.live !== undefined;

  async function update() {
    const address = location.href;
    if (document.hidden || !isLive() || asking === address) return;
    asking = address;
    try {
      const signal = AbortSignal.timeout(SILENT_MS);
      const answer = await fetch(address, { headers: { "strandline-part": "main" }, cache: "no-store", signal });
      const text = await answer.text();
      if (address !== location.href) return; // somebody has chosen something else meanwhile
      if (answer.status === 401) return signIn();
      if ([403, 404].includes(answer.status)) {
        waitsFrom = Date.now();
        if (!dialog.open) location.reload(); // which says so; a dialog that has deleted it goes elsewhere
        return;
      }
      lost = false;
      if (answer.ok && text.startsWith("<main")) {
        [freshAt, why] = [Date.now(), null];
        show(new DOMParser().parseFromString(text, "text/html").getElementById("main"));
      } else {
        why = reasonOf(text) ?? "The controller does not answer.";
      }
      waitsFrom = Date.now();
    } catch (error) {
      lost = error.name !== "TimeoutError";
    } finally {
      if (asking === address) asking = null;
      watch();
    }
  }

  function signIn() {
    const next = encodeURIComponent(location.pathname + location.search);
    location.assign(`/sign-in?ended=1&next=${next}`);
  }

  function reasonOf(text) {
    try {
      return `${JSON.parse(text).detail}.`.replace(/\.\.$/, ".");
    } catch {
      return null; // what answers is no controller
    }
  }

  function watch() {
    const now = Date.now();
    if (now - watchedAt > LOST_MS) waitsFrom = now; // the computer slept
    watchedAt = now;
    if (document.hidden || !isLive()) return;
    const silent = now - waitsFrom > (lost ? LOST_MS : SILENT_MS);
    const said = silent ? "The controller does not answer." : why;
    if (said === null) return lower();
    if (alarm.hidden) {
      alarm.hidden = false;
      document.body.classList.add("stale");
      document.title = `⚠ no answer · ${byId("main").dataset.title}`;
      byId("icon").setAttribute("href", "/static/icon-bad.svg");
    }
    const text = `${said} The data below is from before, and may be wrong by now; the page goes on by itself.`;
    if (byId("alarm-text").textContent !== text) byId("alarm-text").textContent = text; // a screen reader says it once
    byId("alarm-age").textContent = `${ageOf(Date.now() - freshAt)} old, from ${clock(new Date(freshAt))}`;
    enable(false);
  }

  function lower() {
    if (alarm.hidden) return;
    alarm.hidden = true;
    document.body.classList.remove("stale");
    document.title = byId("main").dataset.title;
    byId("icon").setAttribute("href", `/static/icon${byId("main").dataset.trouble ? "-bad" : ""}.svg`);
    enable(true);
  }

  // While the controller is away nothing acts.
  function enable(can) {
    for (const each of document.querySelectorAll("[data-act]")) each.disabled = !can;
    for (const each of dialog.querySelectorAll(".next, .sure")) each.disabled = !can || !isTyped();
  }

  function ageOf(milliseconds) {
    const seconds = Math.round(milliseconds / 1000);
    if (seconds < 120) return `${seconds} s`;
    const minutes = Math.floor(seconds / 60);
    return minutes < 120 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
  }

  const clock = (at) =>
    /(^|; )strandline_zone=/.test(document.cookie)
      ? at.toTimeString().slice(0, 8)
      : `${at.toISOString().slice(11, 19)} UTC`;

  setInterval(update, REFRESH_MS);
  setInterval(watch, 250);
  document.addEventListener("visibilitychange", () => {
    waitsFrom = Date.now();
    update();
  });
  addEventListener("pageshow", (event) => event.persisted && location.reload());

  // -- choices, which are the address ----------------------------------------------------------------------------------

  function go(query) {
    history.replaceState(null, "", query === "" || query === "?" ? location.pathname : query);
    update();
  }

  function choose(form) {
    const chosen = new URLSearchParams();
    for (const [name, value] of new FormData(form)) if (value !== "") chosen.append(name, value);
    go(`?${chosen}`);
  }

  let typing = 0;
  document.addEventListener("input", ({ target }) => {
    const form = target.form;
    if (form?.dataset.here === undefined) return;
    clearTimeout(typing);
    typing = setTimeout(() => choose(form), target.matches("select") ? 0 : 300);
  });
  document.addEventListener("submit", (event) => {
    if (event.target.dataset.here === undefined) return;
    event.preventDefault();
    choose(event.target);
  });

  // -- dialogs -----------------------------------------------------------------------------------------------------------

  const part = (name) => dialog.querySelector(`.${name}`);
  const isTyped = () => {
    const typed = dialog.querySelector("[data-typed]");
    return typed === null || typed.value.trim() === typed.dataset.typed;
  };
  let plan = null; // the call that the dialog makes
  let busy = false; // nobody closes it before it is known what came of it

  async function ask(button) {
    const answer = await sent("GET", button.dataset.act).catch(() => null);
    const text = answer === null ? "" : await answer.text();
    if (answer?.status === 401) return signIn();
    if (!answer?.ok) return tell(reasonOf(text) ?? "The controller does not answer: nothing was done.", "bad");
    dialog.replaceChildren(...new DOMParser().parseFromString(text, "text/html").querySelectorAll("form"));
    plan = JSON.parse(part("buttons").closest("form").dataset.plan ?? "null");
    busy = false;
    say("");
    dialog.showModal();
  }

  const sent = (method, path, body) =>
    fetch(path, {
      method,
      cache: "no-store",
      headers: body === undefined ? {} : { "content-type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });

  function say(refusal) {
    part("refused").textContent = refusal;
  }

  function turn(toQuestion) {
    for (const name of ["fields", "next"]) part(name).hidden = toQuestion;
    for (const name of ["asks", "back", "sure"]) part(name).hidden = !toQuestion;
    say("");
    part("sure").disabled = !isTyped();
    (toQuestion ? part("back") : part("fields").querySelector("input, select")).focus();
  }

  async function proceed() {
    const form = dialog.querySelector("form");
    const answer = await attempt(() => sent("POST", form.dataset.planAt, Object.fromEntries(new FormData(form))));
    if (answer === null) return;
    const text = await answer.text();
    if (!answer.ok) return say(reasonOf(text) ?? "The controller does not answer: nothing was done.");
    plan = JSON.parse(text);
    for (const each of dialog.querySelectorAll("[data-wrong]")) {
      each.textContent = plan.wrong?.[each.dataset.wrong] ?? "";
      each.hidden = each.textContent === "";
      each.parentNode.querySelector("input, select").toggleAttribute("aria-invalid", !each.hidden);
    }
    if (plan.wrong) return dialog.querySelector("[aria-invalid]").focus();
    if (plan.refused) return say(plan.refused);
    part("says").textContent = plan.says;
    turn(true);
  }

  async function perform() {
    if (!isTyped()) return;
    const answer = await attempt(() => sent(plan.method, plan.path, plan.body ?? undefined));
    if (answer === null) return;
    const text = await answer.text();
    if (!answer.ok) return say(reasonOf(text) ?? "What answers is no controller: it is not known whether it was done.");
    let told = {};
    try {
      told = JSON.parse(text);
    } catch {} // an answer without a body
    const { then } = dialog.querySelector("form").dataset;
    if (then) return location.assign(then); // open until then: `update` must not load the page of what is gone again
    dialog.close();
    const said = told.mark === null && plan.nothing ? plan.nothing : plan.done;
    tell(said.replace(/\{([\w.]+)\}/g, (_, path) => path.split(".").reduce((value, name) => value?.[name], told)));
    update();
  }

  async function attempt(call) {
    say("");
    wait(true);
    try {
      const answer = await call();
      if (answer.status === 401) signIn();
      return answer.status === 401 ? null : answer;
    } catch {
      say("The controller does not answer: it is not known whether this was done.");
      return null;
    } finally {
      wait(false);
    }
  }

  function wait(does) {
    busy = does;
    dialog.setAttribute("aria-busy", does);
    for (const each of dialog.querySelectorAll("button")) each.disabled = does;
    if (!does) part("sure").disabled = !isTyped();
  }

  let fades = 0;
  function tell(text, colour = "good") {
    clearTimeout(fades);
    [toast.textContent, toast.className] = [text, colour];
    fades = setTimeout(() => (toast.textContent = ""), 10000);
  }

  async function copy(text) {
    try {
      await navigator.clipboard.writeText(text); // browsers have this only over https, or on the machine itself
      tell("copied");
    } catch {
      tell("This browser did not copy it: select the text and copy that.", "bad");
    }
  }

  dialog.addEventListener("cancel", (event) => busy && event.preventDefault());
  dialog.addEventListener("close", () => dialog.replaceChildren());
  dialog.addEventListener("input", () => (part("sure").disabled = !isTyped()));
  dialog.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !event.target.matches("input")) return;
    event.preventDefault(); // Enter in a field goes on, and never cancels
    if (part("next") !== null && !part("next").hidden) proceed();
  });

  document.addEventListener("click", (event) => {
    const found = (selector) => event.target.closest?.(selector) ?? null;
    const [act, here, copied] = [found("[data-act]"), found("a[data-here]"), found("[data-copy]")];
    const menu = found("details.menu");
    for (const each of document.querySelectorAll("details.menu[open]")) if (each !== menu) each.open = false;
    if (here !== null && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
      event.preventDefault();
      go(here.getAttribute("href"));
    } else if (act !== null) {
      if (menu !== null) {
        menu.open = false;
        menu.querySelector("summary").focus(); // to which the dialog gives the focus back
      }
      ask(act);
    } else if (copied !== null) {
      copy(copied.dataset.copy);
    } else if (found("#ask .next") !== null) proceed();
    else if (found("#ask .back") !== null) turn(false);
    else if (found("#ask .sure") !== null) perform();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && busy) event.preventDefault(); // Chromium asks "cancel" the first time only
    const menu = document.querySelector("details.menu[open]");
    if (event.key !== "Escape" || menu === null || dialog.open) return;
    menu.open = false;
    menu.querySelector("summary").focus();
  });

  // -- theme and time zone -----------------------------------------------------------------------------------------------

  const remember = (name, value, age) => {
    document.cookie = `${name}=${value}; path=/; max-age=${age}; samesite=strict`;
  };
  byId("theme").addEventListener("click", () => {
    const { dataset } = document.documentElement;
    const isDark = dataset.theme ? dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    dataset.theme = isDark ? "light" : "dark";
    remember("strandline_theme", dataset.theme, YEAR_S);
  });
  byId("zone")?.addEventListener("click", () => {
    const isUtc = byId("zone").dataset.zone === "UTC";
    remember("strandline_zone", isUtc ? Intl.DateTimeFormat().resolvedOptions().timeZone : "", isUtc ? YEAR_S : 0);
    location.reload();
  });
})();
