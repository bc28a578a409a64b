// The cookie has the token now: it need not stay in the address, the history and what is copied.
history.replaceState(null, "", "/");
addEventListener("DOMContentLoaded", () => {
  document.getElementById("again").addEventListener("click", () => location.reload());
});
