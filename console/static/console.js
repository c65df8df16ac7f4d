// What pages have with JavaScript and do not need: the live state, keys, a countdown, copying and charts.
(() => {
  "use strict";

  // What the addresses of this page's cell begin with, in a process of several cells.
  const base = document.body.dataset.base || "";

  // Requests that the page makes by itself are no use of the session.
  const ask = (address) => fetch(address, { headers: { "Railhead-Background": "1" } });

  // The state of the cell, by a stream or else by asking every few seconds.
  const staleAfter = 20000;
  const state = document.getElementById("state");

  function watch() {
    let heard = Date.now();
    let source = null;
    let over = false;

    const say = (text, alarm) => {
      state.textContent = text;
      state.classList.toggle("alarm", alarm);
      if (alarm) state.setAttribute("role", "alert"); else state.removeAttribute("role");
    };
    const leave = () => { if (source) source.close(); source = null; };
    const hear = (now) => {
      if (!now) return;
      heard = Date.now();
      say(now.says || (now.stale ? "Stale: the database was last read at " : "State as of ") + now.at, now.stale);
      const badge = document.getElementById("badge");
      if (badge) {
        badge.classList.toggle("alarm", now.open);
        badge.querySelector("b").textContent = now.letters;
      }
      for (const part of document.querySelectorAll("[data-live]")) part.dispatchEvent(new Event("refresh"));
      document.dispatchEvent(new CustomEvent("state", { detail: now }));
    };
    const end = () => {
      over = true;
      leave();
      say("The session has ended, and this may no longer be the state of the cell. Log in again.", true);
    };
    const subscribe = () => {
      if (over || source || document.hidden || !window.EventSource || "poll" in state.dataset) return;
      source = new EventSource(base + "/live");
      source.addEventListener("state", (event) => hear(JSON.parse(event.data)));
      source.addEventListener("ended", end);
      source.addEventListener("error", () => { if (source && source.readyState === EventSource.CLOSED) leave(); });
    };
    const poll = async () => {
      if (over || document.hidden || (source && source.readyState === EventSource.OPEN)) return;
      const answer = await ask(base + "/state.json");
      if (answer.status === 401) end();
      else if (answer.ok) hear(await answer.json());
    };
    const quietly = () => poll().catch(() => {}); // the mark below says that nothing is heard
    subscribe();
    setInterval(quietly, 5000);
    setInterval(subscribe, 60000);
    setInterval(() => {
      if (over || document.hidden || Date.now() - heard <= staleAfter) return;
      say("Stale: nothing was heard from the console since " + new Date(heard).toISOString() +
        ", and this may no longer be the state of the cell", true);
    }, 1000);
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) leave();
      else { subscribe(); quietly(); }
    });
  }
  if (state) watch();

  // Keys. The chosen row is the one with the focus, so that Enter follows its link.
  const rows = () => [...document.querySelectorAll("table.list tbody tr")].filter((row) => row.querySelector("a"));

  function choose(step) {
    const all = rows();
    if (all.length === 0) return;
    const now = all.findIndex((row) => row.contains(document.activeElement));
    const next = all[Math.min(Math.max(now + step, 0), all.length - 1)];
    next.querySelector("a").focus();
    next.scrollIntoView({ block: "nearest" });
  }

  function count() {
    const place = document.getElementById("ticked");
    if (place) place.textContent = "(" + document.querySelectorAll("input[name^=id-]:checked").length + ")";
  }
  document.addEventListener("change", count);

  // A form that was sent is not sent twice. The form is read before the buttons are disabled.
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (form.method !== "post") return;
    setTimeout(() => {
      for (const button of form.querySelectorAll("button:enabled")) { button.disabled = true; button.dataset.sent = ""; }
    });
  });
  addEventListener("pageshow", () => {
    count(); // a browser may tick again what was ticked when the page was left
    for (const button of document.querySelectorAll("button[data-sent]")) button.disabled = false;
  });

  const help = document.getElementById("keys");
  const show = document.getElementById("show-keys");
  if (help && show) {
    show.hidden = false;
    show.addEventListener("click", () => help.showModal());
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    const at = event.target;
    const ticks = at.tagName === "INPUT" && at.type === "checkbox";
    if (!ticks && /^(INPUT|SELECT|TEXTAREA)$/.test(at.tagName)) return;
    const row = rows().find((each) => each.contains(document.activeElement));
    if (event.key === "/") document.getElementById("id")?.focus();
    else if (event.key === "j") choose(1);
    else if (event.key === "k") choose(-1);
    else if (event.key === "?" && help) help.showModal();
    else if (event.key === "x" && row) row.querySelector("input[type=checkbox]")?.click();
    else if (event.key === "Enter" && row && ticks) row.querySelector("a").click();
    else return;
    event.preventDefault();
  });

  // The database says how long it is, and the browser measures what has passed: their clocks may differ.
  const opened = performance.now();
  function countDown() {
    for (const due of document.querySelectorAll("[data-due-in]")) {
      const left = Math.round((Number(due.dataset.dueIn) + opened - performance.now()) / 1000);
      let mark = due.querySelector("span");
      if (!mark) { mark = document.createElement("span"); due.append(" ", mark); }
      mark.textContent = left > 0
        ? "in " + [Math.floor(left / 3600), Math.floor(left / 60) % 60, left % 60].map((n) => String(n).padStart(2, "0")).join(":")
        : "now: reload to see what became of it";
    }
  }
  countDown();
  setInterval(countDown, 1000);

  for (const text of document.querySelectorAll("[data-copy]")) {
    if (!navigator.clipboard) break;
    const button = document.createElement("button");
    button.textContent = "Copy as " + text.dataset.copy;
    button.addEventListener("click", () => navigator.clipboard.writeText(text.textContent));
    text.before(button);
  }

  // The charts: a point for each reading of this console.
  const charts = document.getElementById("charts");
  if (charts && window.uPlot) {
    charts.hidden = false;
    const color = getComputedStyle(document.body);
    const lines = { waiting: { label: "waiting", at: 1 }, oldest: { label: "oldest due, seconds", at: 2 } };
    const plots = [];
    for (const place of charts.querySelectorAll("[data-chart]")) {
      const line = lines[place.dataset.chart];
      const axis = { stroke: color.color, grid: { stroke: color.getPropertyValue("--rule") } };
      const clock = (seconds) => new Date(seconds * 1000).toISOString().slice(11, 19);
      const times = { ...axis, space: 80, values: (_, splits) => splits.map(clock) };
      const plot = new window.uPlot({
        width: place.clientWidth || 320, height: 180, axes: [times, axis],
        series: [
          { label: "UTC", value: (_, seconds) => (seconds === null ? "-" : clock(seconds)) },
          { label: line.label, stroke: color.getPropertyValue("--link"), width: 2 },
        ],
      }, [[], []], place);
      plots.push({ plot, line, place });
    }
    let columns = [[], [], [], []];
    const draw = () => {
      for (const { plot, line, place } of plots) {
        plot.setSize({ width: place.clientWidth || 320, height: 180 });
        plot.setData([columns[0], columns[line.at]]);
      }
    };
    const load = async () => {
      const answer = await ask(base + "/live.json");
      if (answer.ok) { columns = await answer.json(); draw(); }
    };
    document.addEventListener("state", (event) => {
      const point = event.detail.point;
      const last = columns[0].at(-1);
      if (last === undefined || point[0] - last > 30) load().catch(() => {}); // there are points in between
      else if (point[0] > last) { columns.forEach((column, n) => column.push(point[n])); draw(); }
    });
    load().catch(() => {});
  }
})();
