for (const button of document.querySelectorAll("button[data-copies]")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    const line = document.getElementById(button.dataset.copies);
    let said = "Copied";
    try {
      await navigator.clipboard.writeText(line.textContent);
    } catch {
      getSelection().selectAllChildren(line);
      said = document.execCommand("copy") ? "Copied" : "Selected";
    }
    button.textContent = said;
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
}
