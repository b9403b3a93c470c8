// The dashboard works without this file. It adds: the one-time link, live updates, ticking all rows, and counting ticks.
"use strict";

// The link has the code in its fragment, which no server and no log ever sees. It is exchanged by POST.
function exchangeLink() {
  const form = document.getElementById("login");
  const code = /^#link=([0-9a-f]+)$/.exec(location.hash);
  if (!form || !code) return;
  history.replaceState(null, "", location.pathname + location.search);
  form.querySelector("[name=secret]").value = code[1];
  form.requestSubmit();
}

// Replaces what changed. Elements keep their place while the page has the same ones, so focus and selection stay.
function merge(live, html) {
  const next = document.createElement("template");
  next.innerHTML = html;
  const idsOf = (of) => [...of.querySelectorAll("[data-live]")].map((element) => element.id);
  const known = idsOf(live);
  const given = idsOf(next.content);
  if (known.length === 0 || known.join(" ") !== given.join(" ")) {
    live.replaceChildren(next.content);
    return;
  }
  for (const id of given) {
    const from = next.content.getElementById(id);
    const to = document.getElementById(id);
    if (from.innerHTML !== to.innerHTML && !to.contains(document.activeElement)) {
      to.replaceChildren(...from.childNodes);
    }
    to.className = from.className;
    if (from.parentElement && to.parentElement.classList.contains("tile")) {
      to.parentElement.className = from.parentElement.className;
    }
  }
  const alerts = (of) => [...of.querySelectorAll(":scope > .alert")];
  alerts(live).forEach((alert) => alert.remove());
  const first = live.querySelector(":scope > .tiles");
  if (first) first.after(...alerts(next.content));
}

function keepLive() {
  const bar = document.querySelector("[data-stream]");
  const live = document.getElementById("live");
  if (!bar || !live || !window.EventSource) return;
  const state = bar.querySelector("[data-live-state]");
  const toggle = bar.querySelector("[data-live-toggle]");
  let source = null;
  let paused = false;

  const say = (text, on) => {
    if (state.textContent !== text) state.textContent = text;
    bar.classList.toggle("off", !on);
  };
  const stop = () => {
    if (source) source.close();
    source = null;
  };
  const start = () => {
    if (source || paused || document.hidden) return;
    source = new EventSource(bar.dataset.stream);
    source.addEventListener("open", () => say("Live", true));
    source.addEventListener("page", (message) => {
      say("Live", true);
      merge(live, message.data);
    });
    source.addEventListener("error", () => {
      say("Not connected", false);
      // The browser does not try again after an answer such as "log in first".
      if (source && source.readyState === EventSource.CLOSED) {
        stop();
        setTimeout(start, 5000);
      }
    });
  };
  toggle.addEventListener("click", () => {
    paused = !paused;
    toggle.setAttribute("aria-pressed", String(paused));
    toggle.textContent = paused ? "Continue updates" : "Pause updates";
    if (paused) {
      stop();
      say("Paused", false);
    } else {
      say("Live", true);
      start();
    }
  });
  document.addEventListener("visibilitychange", () => (document.hidden ? stop() : start()));
  window.addEventListener("pagehide", stop);
  window.addEventListener("pageshow", start);
  bar.hidden = false;
  start();
}

function countTicks() {
  const form = document.querySelector("[data-selection]");
  if (!form) return;
  const boxes = [...form.querySelectorAll("input[name=row]")];
  const all = form.querySelector("[data-tick-all]");
  const shown = form.querySelector("[data-ticked]");
  const ticked = form.querySelector("input[name=scope][value=ticked]");
  if (!all || !shown || !ticked) return;
  all.hidden = false;
  const count = () => {
    const number = boxes.filter((box) => box.checked).length;
    shown.textContent = `(${number})`;
    all.checked = number === boxes.length;
    all.indeterminate = number > 0 && number < boxes.length;
  };
  all.addEventListener("change", () => {
    boxes.forEach((box) => (box.checked = all.checked));
    ticked.checked = true;
    count();
  });
  boxes.forEach((box) =>
    box.addEventListener("change", () => {
      ticked.checked = true;
      count();
    }),
  );
  count();
}

exchangeLink();
keepLive();
countTicks();
