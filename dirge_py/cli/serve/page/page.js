// The secret comes in the fragment of the address, which no browser sends to a server. It is kept
// for this tab and this port alone. A cookie would go to every other port of this machine, too.
"use strict";
(() => {
  const KEY = "dirge-token";

  function keep() {
    const given = new URLSearchParams(location.hash.slice(1)).get("token");
    if (given) sessionStorage.setItem(KEY, given);
    // It need not stay in the address, the history and what is copied.
    if (location.hash || location.search) history.replaceState(null, "", "/");
    return given;
  }

  keep();
  // The printed address opened once more in this tab changes nothing but the fragment.
  addEventListener("hashchange", () => { if (keep()) location.reload(); });
  // The terminal takes keys only with the focus, which no script of Textual gives to it.
  function focusTerminal() {
    document.querySelector(".xterm-helper-textarea")?.focus();
  }

  addEventListener("focus", focusTerminal);
  addEventListener("DOMContentLoaded", () => {
    new MutationObserver(focusTerminal).observe(document.body, { attributeFilter: ["class"] });
    document.getElementById("again").addEventListener("click", () => location.reload());
    if (!token) document.body.classList.add("-no-token");
  });

  const token = sessionStorage.getItem(KEY);
  if (!token) return;
  const Native = WebSocket;
  window.WebSocket = class extends Native {
    constructor(url) {
      super(url, ["dirge", `dirge.token.${token}`]);
    }
  };
  const terminal = document.createElement("script");
  terminal.src = "/static/js/textual.js";
  document.head.append(terminal);
})();
