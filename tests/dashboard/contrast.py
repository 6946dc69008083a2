"""The contrast of texts, computed from styles alone: for what lies above a page, where axe looks at the page behind."""

from __future__ import annotations

from typing import Any, Final

from playwright.sync_api import Locator

LEAST: Final = 4.5
LEAST_OF_LARGE: Final = 3.0  # from 24 pixels on, or 18.66 where it is bold
# A text's colour and what lies behind it: the backgrounds of the elements that it is in, up to the first opaque one.
_READ: Final = """
root => {
  const rgba = text => { const [r, g, b, a = 1] = text.match(/[\\d.]+/g).map(Number); return [r, g, b, a]; };
  const over = (top, below) => [0, 1, 2].map(i => top[i] * top[3] + below[i] * (1 - top[3]));
  const luminance = colour => {
    const [r, g, b] = colour.map(v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const found = [], texts = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const text = texts.currentNode.data.trim(), element = texts.currentNode.parentElement;
    const isOff = element.closest('[aria-hidden=true], [disabled], [aria-disabled=true]');
    if (!text || isOff || !element.checkVisibility({visibilityProperty: true})) continue;
    const layers = [];
    for (let each = element; each; each = each.parentElement) {
      layers.push(rgba(getComputedStyle(each).backgroundColor));
      if (layers.at(-1)[3] === 1) break;
    }
    const behind = layers.reduceRight((below, layer) => over(layer, below), [255, 255, 255]);
    const style = getComputedStyle(element), lights = [over(rgba(style.color), behind), behind].map(luminance);
    const ratio = (Math.max(...lights) + 0.05) / (Math.min(...lights) + 0.05);
    const size = parseFloat(style.fontSize), weight = Number(style.fontWeight), opaque = layers.at(-1)[3] === 1;
    found.push({text, ratio, size, weight, opaque});
  }
  return found;
}
"""


def dim_texts(element: Locator) -> list[str]:
    """The texts of an element that are hard to read. There are texts, and each has something opaque behind it."""
    found: list[dict[str, Any]] = element.evaluate(_READ)
    assert found and all(each["opaque"] for each in found), found
    return [f"{each['text']!r} has a contrast of {each['ratio']:.2f}" for each in found if each["ratio"] < _least(each)]


def _least(text: dict[str, Any]) -> float:
    is_large = text["size"] >= 24 or (text["size"] >= 18.66 and text["weight"] >= 700)
    return LEAST_OF_LARGE if is_large else LEAST
