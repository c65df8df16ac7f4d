// What pages have with JavaScript and do not need: keys, a countdown, copying and the charts.
(() => {
  "use strict";

  const rows = () => [...document.querySelectorAll("table.list tbody tr")];

  function choose(step) {
    const all = rows();
    if (all.length === 0) return;
    const now = all.findIndex((row) => row.classList.contains("chosen"));
    const next = Math.min(Math.max(now + step, 0), all.length - 1);
    all.forEach((row, n) => row.classList.toggle("chosen", n === next));
    const link = all[next].querySelector("a");
    if (link) link.focus();
    all[next].scrollIntoView({ block: "nearest" });
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
    if (event.key === "/") {
      const search = document.getElementById("id");
      if (search) { search.focus(); event.preventDefault(); }
    } else if (event.key === "j") choose(1);
    else if (event.key === "k") choose(-1);
  });

  function countDown() {
    for (const due of document.querySelectorAll("[data-due]")) {
      const left = Math.round((Date.parse(due.dataset.due) - Date.now()) / 1000);
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

  const charts = document.getElementById("charts");
  if (charts && window.uPlot) {
    charts.hidden = false;
    const color = getComputedStyle(document.body);
    const lines = { waiting: { label: "waiting", at: 1 }, oldest: { label: "oldest due, seconds", at: 2 } };
    const plots = [];
    for (const place of charts.querySelectorAll("[data-chart]")) {
      const line = lines[place.dataset.chart];
      const axis = { stroke: color.color, grid: { stroke: color.getPropertyValue("--rule") } };
      const plot = new window.uPlot({
        width: place.clientWidth || 320, height: 180, tzDate: (seconds) => window.uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
        series: [{ label: "UTC" }, { label: line.label, stroke: color.getPropertyValue("--link"), width: 2 }], axes: [axis, axis],
      }, [[], []], place);
      plots.push({ plot, line, place });
    }
    const draw = async () => {
      const answer = await fetch("/live.json");
      if (!answer.ok) return;
      const columns = await answer.json();
      for (const { plot, line, place } of plots) {
        plot.setSize({ width: place.clientWidth || 320, height: 180 });
        plot.setData([columns[0], columns[line.at]]);
      }
    };
    const again = () => draw().catch(() => {
      const state = document.getElementById("state");
      if (state && !state.classList.contains("alarm")) {
        state.classList.add("alarm");
        state.append(": the console does not answer, and this is no longer the state of the cell");
      }
    });
    again();
    setInterval(again, 5000);
  }
})();
