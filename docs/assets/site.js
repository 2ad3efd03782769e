// Wide tables scroll: with the keyboard, too.
addEventListener("load", () => {
  for (const each of document.querySelectorAll(".md-typeset__scrollwrap")) each.tabIndex = 0;
});
