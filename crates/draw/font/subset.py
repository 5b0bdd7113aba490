"""Makes the two fonts beside it from Inter 4.1, which is under the SIL Open Font License (OFL.txt) and reserves no name.

    pip install fonttools brotli
    npm pack inter-ui@4.1.1 && tar xzf inter-ui-4.1.1.tgz
    python subset.py package/web

Kept are the printable characters of ASCII and Latin-1 and a few signs. Digits are the tabular ones, all of one width, so that
a number keeps its place while it changes.
"""

import pathlib
import sys

from fontTools import subset
from fontTools.ttLib import TTFont

SIGNS = "·–—‘’“”…←↑→↓−≈≤≥"
LETTERS = [*range(0x20, 0x7F), *range(0xA1, 0x100), *map(ord, SIGNS)]


def tabular(font):
    """Which glyph stands for which when figures are to have one width."""
    table = font["GSUB"].table
    found = {}
    for record in table.FeatureList.FeatureRecord:
        if record.FeatureTag == "tnum":
            for number in record.Feature.LookupListIndex:
                for part in table.LookupList.Lookup[number].SubTable:
                    found.update(getattr(part, "ExtSubTable", part).mapping)
    return found


def small(path, to):
    font = TTFont(path, recalcTimestamp=False)  # the same bytes every time
    same_width = tabular(font)
    for table in font["cmap"].tables:
        if table.isUnicode():
            for digit in map(ord, "0123456789"):
                glyph = table.cmap[digit]  # tables share their entries, so another may have been here
                table.cmap[digit] = same_width.get(glyph, glyph)
    options = subset.Options()
    options.layout_features = []
    options.hinting = False
    options.glyph_names = False
    options.notdef_outline = True
    options.name_IDs = [0, 1, 2, 5, 13, 14]
    options.drop_tables += ["GPOS", "GSUB", "GDEF", "STAT"]
    chosen = subset.Subsetter(options)
    chosen.populate(unicodes=LETTERS)
    chosen.subset(font)
    font.flavor = None
    font.save(to, reorderTables=True)


if __name__ == "__main__":
    folder, here = pathlib.Path(sys.argv[1]), pathlib.Path(__file__).parent
    for weight in ["Regular", "SemiBold"]:
        small(folder / f"Inter-{weight}.woff2", here / f"Inter-{weight}.ttf")
