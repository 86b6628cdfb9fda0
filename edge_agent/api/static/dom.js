// Elements without HTML text: whatever a camera or a label is called, it can only become text.

/** An element; attributes that are null or false are left out, children may be nested lists, text, numbers or null. */
export function h(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value !== null && value !== undefined && value !== false) {
      element.setAttribute(name, value === true ? '' : String(value));
    }
  }
  element.append(...nodes(children));
  return element;
}

/** Brings `parent`'s children to what is wanted and leaves alone what is the same, so that selections and focus stay. */
export function patch(parent, ...wanted) {
  const known = new Map();
  for (const child of parent.childNodes) {
    if (keyOf(child)) known.set(keyOf(child), child);
  }
  let at = parent.firstChild;
  for (const node of nodes(wanted)) {
    const key = keyOf(node);
    const old = key ? known.get(key) : at;
    known.delete(key);
    if (!old || !alike(old, node)) {
      parent.insertBefore(node, at);
      continue;
    }
    if (old === at) at = at.nextSibling;
    else parent.insertBefore(old, at);
    update(old, node);
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

function nodes(children) {
  return children
    .flat(Infinity)
    .filter((child) => child !== null && child !== undefined && child !== false && child !== '')
    .map((child) => (child instanceof Node ? child : document.createTextNode(String(child))));
}

function keyOf(node) {
  return node.dataset ? node.dataset.key : undefined;
}

function alike(old, node) {
  return old.nodeName === node.nodeName && keyOf(old) === keyOf(node);
}

function update(old, node) {
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.nodeValue !== node.nodeValue) old.nodeValue = node.nodeValue;
    return;
  }
  if (old.dataset.live !== undefined) return; // its owner changes it
  for (const { name } of [...old.attributes]) {
    if (!node.hasAttribute(name)) old.removeAttribute(name);
  }
  for (const { name, value } of node.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  patch(old, ...node.childNodes);
}
