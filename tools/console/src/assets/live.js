// Shows a page as the server reads it. Without this script, a page shows what was read when it was opened.
"use strict";
const main = document.getElementById("content");
const read = document.getElementById("read");
const state = document.getElementById("state");
const CAN_FOCUS = "a, button, .scroll, pre";
let source = null;
let news = null;
let pressed = false;

// Who writes, selects words or presses a button must not lose it.
const inUse = () => {
  const selection = getSelection();
  const selects = !selection.isCollapsed && main.contains(selection.anchorNode);
  return pressed || selects || (main.contains(document.activeElement) && document.activeElement.matches("input, select"));
};
const nameOf = (one) => one.getAttribute("href") ?? one.tagName + one.className;
const likeIt = (one) => Array.from(main.querySelectorAll(CAN_FOCUS)).filter((other) => nameOf(other) === nameOf(one));
const show = () => {
  if (news === null || inUse()) return;
  const active = document.activeElement;
  const hadFocus = main.contains(active) && active.matches(CAN_FOCUS);
  const place = hadFocus ? likeIt(active).indexOf(active) : 0;
  const scrolled = Array.from(main.querySelectorAll(".scroll, pre"), (one) => [one.scrollLeft, one.scrollTop]);
  main.innerHTML = news;
  news = null;
  main.querySelectorAll(".scroll, pre").forEach((one, index) => {
    if (scrolled[index]) [one.scrollLeft, one.scrollTop] = scrolled[index];
  });
  if (hadFocus) (likeIt(active)[place] ?? main).focus({ preventScroll: true });
  read.textContent = "Read at " + new Date().toLocaleTimeString() + ".";
};
// A browser has few connections for a server, so that a page in the background gives its own back.
const listen = () => {
  source?.close();
  if (document.hidden) return;
  source = new EventSource("/live?address=" + encodeURIComponent(main.dataset.live));
  source.addEventListener("page", (event) => {
    news = event.data;
    state.textContent = "";
    show();
  });
  source.addEventListener("end", () => source.close());
  source.addEventListener("error", () => {
    state.textContent = "No connection; this was read before.";
  });
};
const press = (now) => () => {
  pressed = now;
  // What was pressed gets its click first.
  if (!now) setTimeout(show);
};
document.addEventListener("pointerdown", press(true));
["pointerup", "pointercancel", "dragend"].forEach((end) => document.addEventListener(end, press(false)));
["selectionchange", "focusin", "focusout"].forEach((change) => document.addEventListener(change, () => setTimeout(show)));
document.addEventListener("visibilitychange", listen);
listen();
