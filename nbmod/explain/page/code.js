// The kernels of a step: source, the hot loop before code generation, and its machine code.
"use strict";

/** Sections about the kernels of a step; nothing where nobody asked for them. */
function codeSections(plan, index) {
  const code = plan.codeOfStep.get(index);
  if (!code) return plan.steps[index].is_view ? null : section("Code", h("p", {class: "hint"}, "Not recorded. With it:"),
    commandLine(plan.command && `${plan.command} --code ${plan.quoted(index)} --page plan.html`,
                `explanation.code(${JSON.stringify(plan.stepName(index))})`));
  if (!code.length) return section("Code", h("p", {}, "No kernel: NumPy runs this step, or another library."));
  return code.map(kernel => section(`Kernel ${kernel.name}`, facts([
    ["where", h("span", {class: "where"}, kernel.where)],
    ["hot loop", kernel.instructions ? plural(kernel.instructions, "instruction") : "none"],
    ["vectors", kernel.vector_bits ? `${kernel.vector_bits} bits` : "none"],
    ["FMAs", kernel.instructions ? String(kernel.fmas) : null],
    ["spills", kernel.instructions ? String(kernel.spills) : null],
    ["calls", kernel.instructions ? String(kernel.calls) : null]]),
    listing("Source", kernel.source, true), listing("Hot loop before code generation (LLVM)", kernel.intermediate),
    listing("Hot loop in assembly", kernel.assembly)));
}

/** A text with numbers of lines; arithmetic on vectors and uses of the stack are marked. */
function listing(title, text, isOpen = false) {
  if (!text) return null;
  const marks = [["vector", /^v(?!mov)\w+p[sdh]\b|= .*\bf(add|sub|mul|div|neg)\b.*<\d+ x |llvm\.fma\.v|\bfm(la|ls)\b|^vpdp/],
                 ["stack", /\(%[re][sb]p\b|\[sp\b/]];
  const lines = text.replace(/\n$/, "").split("\n").map(line => {
    const kind = marks.find(([, pattern]) => pattern.test(line))?.[0];
    return h("span", {class: `line ${kind ?? ""}`}, line, "\n");
  });
  return h("details", {class: "listing", open: isOpen}, h("summary", {}, `${title}, ${plural(lines.length, "line")}`),
    h("pre", {tabindex: 0, "aria-label": title, role: "region"}, h("code", {}, lines)));
}

/** A command of a shell, and a line of Python that does the same; each can be copied. */
function commandLine(command, python) {
  return h("div", {class: "commands"}, [["shell", command], ["Python", python]].filter(([, text]) => text).map(([kind, text]) => {
    const code = h("code", {}, text), told = h("span", {role: "status"});
    return h("p", {}, h("small", {}, kind), " ", code, " ", h("button", {
      type: "button", class: "copy", "aria-label": `Copy the ${kind} line`, onclick: () => copy(code, told)}, "Copy"), told);
  }));
}

/** Copy the text of an element; where that is forbidden, select it. */
async function copy(element, told) {
  const selection = getSelection();
  selection.selectAllChildren(element);
  try {
    await navigator.clipboard.writeText(element.textContent);
    told.textContent = " copied";
    selection.removeAllRanges();
  } catch {
    told.textContent = document.execCommand("copy") ? " copied" : " selected";
  }
}

/** How to run a step by itself. */
function reproducerSection(plan, index) {
  const step = plan.steps[index];
  if (step.is_view) return null;
  if (plan.isInserted(step.forward == null ? step.node : plan.steps[step.forward].node)) {
    return section("Reproducer", h("p", {class: "hint"}, "A pass inserted this step, which computes no node of the network: "
      + "reproduce one beside it."));
  }
  return section("Reproducer", h("p", {class: "hint"}, "A script and arrays that run and time this step by itself:"),
    commandLine(plan.command && `${plan.command} --reproduce ${plan.quoted(index)} --out folder`,
                `explanation.reproducer(${JSON.stringify(plan.stepName(index))}).save("folder")`));
}
