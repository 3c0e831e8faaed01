"use strict";
(() => {
  const offerCopies = (within) => {
    for (const button of within.querySelectorAll("button.copy")) {
      const code = button.previousElementSibling;
      button.hidden = false;
      button.addEventListener("click", async () => {
        let done = false;
        try {
          await navigator.clipboard.writeText(code.textContent);
          done = true;
        } catch {
          const range = document.createRange();
          range.selectNodeContents(code);
          const selection = getSelection();
          selection.removeAllRanges();
          selection.addRange(range);
          done = document.execCommand("copy");
        }
        button.textContent = done ? "Copied" : "Press Ctrl+C";
        setTimeout(() => { button.textContent = "Copy"; }, 1500);
      });
    }
  };
  offerCopies(document);

  for (const ring of document.querySelectorAll(".sheet .ring:first-of-type")) {
    const box = ring.closest(".sheet");
    const toRing = () => { box.scrollLeft = ring.cx.baseVal.value - box.clientWidth / 2; };
    toRing();
    box.closest(".axes")?.addEventListener("change", toRing);
  }

  const unfold = (text) => text === "" ? [] : text.split(",").flatMap((span) => {
    const [first, last = first] = span.split("-").map(Number);
    return Array.from({length: last - first + 1}, (_, at) => first + at);
  });

  const source = document.getElementById("grid-data");
  if (source !== null) {
    const data = JSON.parse(source.textContent);
    const standing = new Map();
    for (const [word, ranks] of Object.entries(data.standings)) for (const rank of unfold(ranks)) standing.set(rank, word);
    const doing = new Map();
    for (const [ranks, label, frame] of data.doing) for (const rank of unfold(ranks)) doing.set(rank, [label, frame].filter(Boolean).join(", at "));
    const said = document.querySelector(".pointed");
    said.textContent = "Point at a rank, or focus the grid and use the arrow keys.";
    for (const box of document.querySelectorAll("[data-sheet]")) grid(box, data.sheets[box.dataset.sheet], said, standing, doing);
  }

  function grid(box, sheet, said, standing, doing) {
    const svg = box.querySelector("svg"), cursor = box.querySelector(".cursor");
    const rows = sheet.rows.map(([x, y, name, ranks]) => ({x, y, name, ranks: unfold(ranks)}));
    let at = null;
    const show = (row, column) => {
      const rank = rows[row].ranks[column];
      at = {row, column};
      cursor.setAttribute("x", rows[row].x + column * sheet.x - 1);
      cursor.setAttribute("y", rows[row].y - 1);
      const name = rows[row].name.startsWith("rank") ? "" : ` · ${rows[row].name}`;
      const what = doing.has(rank) ? ` · ${doing.get(rank)}` : "";
      said.textContent = `rank ${rank}${name} · ${standing.get(rank) ?? "seen"}${what}`;
    };
    svg.addEventListener("pointermove", (event) => {
      const frame = svg.getBoundingClientRect(), scale = sheet.w / frame.width;
      const x = (event.clientX - frame.left) * scale, y = (event.clientY - frame.top) * scale;
      const row = rows.findIndex((one) => y >= one.y && y < one.y + sheet.y && x >= one.x && x < one.x + one.ranks.length * sheet.x);
      if (row >= 0) show(row, Math.floor((x - rows[row].x) / sheet.x));
    });
    box.addEventListener("keydown", (event) => {
      const step = {ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0]}[event.key];
      if (step === undefined) return;
      event.preventDefault();
      if (at === null) {
        const row = rows.findIndex((one) => one.ranks.some((rank) => standing.get(rank) === "culprit"));
        const first = Math.max(row, 0);
        show(first, Math.max(0, rows[first].ranks.findIndex((rank) => standing.get(rank) === "culprit")));
        return;
      }
      const row = Math.min(rows.length - 1, Math.max(0, at.row + step[0]));
      show(row, Math.min(rows[row].ranks.length - 1, Math.max(0, at.column + step[1])));
    });
  }

  const run = document.querySelector("[data-run]");
  if (run !== null) {
    const step = run.querySelector("[data-step]"), bar = run.querySelector("progress");
    const ask = async () => {
      try {
        const answer = await fetch(`/v1/diagnoses/${encodeURIComponent(run.dataset.run)}`, {headers: {Accept: "application/json"}, cache: "no-store"});
        if (answer.status !== 202) {
          location.reload();
          return;
        }
        const state = await answer.json();
        step.textContent = words(state.step);
        if (state.step.asked > 0) {
          bar.max = state.step.asked;
          bar.value = state.step.finished;
        } else bar.removeAttribute("value");
      } catch {
        step.textContent = "the collector does not answer; asking again";
      }
      setTimeout(ask, 700);
    };
    setTimeout(ask, 300);
  }

  // How old what goes on is, in the words of the server: `94 s`, `17 min`, `3.5 h`.
  const age = (seconds) => seconds < 120 ? `${Math.round(seconds)} s` : seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
  setInterval(() => {
    for (const one of document.querySelectorAll("[data-since]")) one.textContent = age(Math.max(0, (Date.now() - Date.parse(one.dataset.since)) / 1000));
  }, 1000);

  const live = document.querySelector("[data-live]");
  if (live !== null) follow(1000 * Number(live.dataset.live));

  // Parts of the page are asked for again when something has happened, at most once in `pause` milliseconds.
  function follow(pause) {
    let source = null, waiting = false, last = Date.now();
    const refresh = async () => {
      waiting = false;
      last = Date.now();
      try {
        const answer = await fetch(location.href, {headers: {Accept: "text/html"}, cache: "no-store"});
        if (!answer.ok || answer.redirected) {
          location.reload();
          return;
        }
        const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
        for (const part of document.querySelectorAll("[data-live]")) {
          const now = fresh.getElementById(part.id);
          if (now !== null) renew(part, now);
        }
      } catch {
        soon();
      }
    };
    const soon = () => {
      if (waiting) return;
      waiting = true;
      setTimeout(refresh, Math.max(0, last + pause - Date.now()));
    };
    const listen = () => {
      source = new EventSource("/v1/events");
      source.addEventListener("incident", soon);
      source.addEventListener("job", (event) => {
        const {job, state} = JSON.parse(event.data);
        const row = [...document.querySelectorAll("[data-job]")].find((one) => one.dataset.job === job);
        if (row?.dataset.state !== state && document.getElementById("jobs") !== null) soon();
      });
    };
    document.addEventListener("visibilitychange", () => {
      source.close();
      if (document.hidden) return;
      listen();
      soon();
    });
    listen();
  }

  // What the user is writing in stays as it is, and so does the focus.
  function renew(part, now) {
    const all = "a, button, input, select, summary, code[tabindex]";
    const at = [...part.querySelectorAll(all)].indexOf(document.activeElement);
    if (at >= 0 && document.activeElement.matches("input, select")) return;
    if ([...part.querySelectorAll("input")].some((one) => one.value !== one.defaultValue)) return;
    if (part.innerHTML === now.innerHTML) return;
    part.replaceWith(now);
    offerCopies(now);
    if (at >= 0) now.querySelectorAll(all)[at]?.focus();
  }

  function words(step) {
    const nodes = step.asked > 1 ? ` (${step.finished} of ${step.asked} nodes)` : "";
    switch (step.stage) {
      case "finding": return `finding ranks${nodes}`;
      case "looking": return `look ${step.look}${nodes}`;
      case "waiting": return step.reason ? `waiting up to ${Math.round(step.seconds)} s ${step.reason}` : `waiting ${step.seconds} s to see what moves`;
      case "looking_closer": return `looking closer at suspects${nodes}`;
      case "looking_deeper": return `reading native stacks${nodes}`;
      default: return "judging";
    }
  }
})();
