"""Makes the images of the tests: python make.py, with Pillow and numpy."""
import struct
import zlib

from PIL import Image

Image.new("RGB", (16, 8), (254, 0, 0)).save("red_16x8.jpg", quality=95)
Image.new("I;16", (4, 2), 128 * 257).save("grey_16bit_4x2.png")
palette = Image.new("P", (4, 2), 1)
palette.putpalette([0, 0, 0, 200, 100, 50])
palette.info["transparency"] = bytes([0, 128])
palette.save("palette_alpha_4x2.png", transparency=bytes([0, 128]))
print(Image.open("red_16x8.jpg").getpixel((0, 0)))


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


# Says that it has 8 x 8 pixels, and holds four million bytes.
header = chunk(b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0))
bomb = b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(b"\xff" * 4_000_000, 9)) + chunk(b"IEND", b"")
open("bomb.png", "wb").write(bomb)
