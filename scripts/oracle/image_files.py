"""Makes images as photographs are, smooth with edges and noise, and stores them as files of every kind, by PIL and, where
PIL writes none of a kind, by hand."""
import io
import struct
import warnings
import zlib

import numpy as np
from PIL import Image, ImageOps

ORIENTATION = 0x0112
# What undoes the turn that an orientation asks for.
STORED_FOR = {1: None, 2: Image.Transpose.FLIP_LEFT_RIGHT, 3: Image.Transpose.ROTATE_180,
              4: Image.Transpose.FLIP_TOP_BOTTOM, 5: Image.Transpose.TRANSPOSE, 6: Image.Transpose.ROTATE_90,
              7: Image.Transpose.TRANSVERSE, 8: Image.Transpose.ROTATE_270}


def photograph(generator, height, width, channels=3):
    """u8 (height, width, channels): slow waves of colour, discs and half planes of other colours, and noise."""
    y, x = np.mgrid[0:height, 0:width] / max(height, width)
    picture = np.zeros((height, width, channels))
    for _ in range(4):
        frequency, phase = generator.normal(0, 4, 2), generator.uniform(0, 6.3)
        picture += np.cos(frequency[0] * y + frequency[1] * x + phase)[..., None] * generator.uniform(0, 40, channels)
    picture += 128
    for _ in range(generator.integers(1, 5)):
        centre, radius, slope = generator.uniform(0, 1, 2), generator.uniform(0.05, 0.4), generator.normal(0, 1, 2)
        inside = (y - centre[0])**2 + (x - centre[1])**2 < radius**2
        if generator.random() < 0.4:
            inside = (y - centre[0]) * slope[0] + (x - centre[1]) * slope[1] > 0.3
        picture[inside] = 0.4 * picture[inside] + generator.uniform(0, 0.6 * 255, channels)
    picture += generator.normal(0, generator.choice([0, 2, 12]), picture.shape)
    return np.clip(picture.round(), 0, 255).astype(np.uint8)


def size(generator, most=90):
    """Height and width, mostly odd ones, and small ones among them."""
    return tuple(int(generator.integers(1, 5) if generator.random() < 0.08 else generator.integers(5, most))
                 for _ in range(2))


def exif_of(orientation):
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    return exif


def png_chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def packed_rows(samples, bits):
    """Rows of bytes of samples (H, W · channels)."""
    if bits == 16:
        return samples.astype(">u2").view(np.uint8).reshape(len(samples), -1)
    if bits == 8:
        return samples.astype(np.uint8)
    shifted = samples[..., None] >> np.arange(bits - 1, -1, -1) & 1
    return np.packbits(shifted.reshape(len(samples), -1).astype(np.uint8), axis=1)


def filtered_rows(generator, rows, pixel_bytes):
    """Each by one of PNG's five filters."""
    before = np.zeros(rows.shape[1], np.uint8)
    parts = []
    for row in rows:
        left = np.concatenate([np.zeros(pixel_bytes, np.uint8), row])[:len(row)].astype(int)
        corner = np.concatenate([np.zeros(pixel_bytes, np.uint8), before])[:len(row)].astype(int)
        above = before.astype(int)
        estimate = left + above - corner
        distances = np.abs(np.stack([estimate - left, estimate - above, estimate - corner]))
        paeth = np.choose(distances.argmin(axis=0), [left, above, corner])
        kind = int(generator.integers(0, 5))
        guess = [np.zeros_like(left), left, above, (left + above) // 2, paeth][kind]
        parts.append(bytes([kind]) + ((row - guess) % 256).astype(np.uint8).tobytes())
        before = row
    return b"".join(parts)


def png(generator, samples, colour_type, bits, interlaced=False, palette=None, transparency=None):
    """Of samples (H, W, channels) of `bits` each, after the PNG specification."""
    height, width, channels = samples.shape
    pixel_bytes = max(1, channels * bits // 8)
    passes = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]
    data = b""
    for top, left, down, across in passes if interlaced else [(0, 0, 1, 1)]:
        part = samples[top::down, left::across]
        if part.size:
            data += filtered_rows(generator, packed_rows(part.reshape(len(part), -1), bits), pixel_bytes)
    chunks = [png_chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, colour_type, 0, 0, interlaced))]
    if palette is not None:
        chunks.append(png_chunk(b"PLTE", palette.astype(np.uint8).tobytes()))
    if transparency is not None:
        chunks.append(png_chunk(b"tRNS", transparency))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks) + png_chunk(b"IDAT", zlib.compress(data)) + png_chunk(b"IEND", b"")


def saved(image, form, orientation=None, **options):
    """The bytes of a file by PIL; stored as the orientation wants it to be shown as `image`."""
    if orientation is not None:
        if STORED_FOR[orientation] is not None:
            image = image.transpose(STORED_FOR[orientation])
        options["exif"] = exif_of(orientation)
    file = io.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


def jpeg(generator, height, width, variant):
    options = {"quality": int(generator.integers(25, 101)), "subsampling": int(generator.integers(0, 3)),
               "optimize": bool(generator.random() < 0.3)}
    if generator.random() < 0.3:
        options["restart_marker_blocks"] = int(generator.integers(1, 9))
    if variant == "progressive" or (variant == "turned" and generator.random() < 0.3):
        options["progressive"] = True
    channels = {"grey": 1, "cmyk": 4}.get(variant, 3)
    pixels = photograph(generator, height, width, channels)
    if channels == 1:
        del options["subsampling"]
    image = Image.fromarray(pixels[..., 0]) if channels == 1 else Image.fromarray(
        pixels, mode="CMYK") if channels == 4 else Image.fromarray(pixels)
    if variant == "colours as they are":
        options = {"quality": options["quality"], "keep_rgb": True}
    if variant == "several pictures":  # as telephones write them
        other = Image.fromarray(photograph(generator, height, width))
        return saved(image, "MPO", None, save_all=True, append_images=[other], quality=options["quality"])
    return saved(image, "JPEG", int(generator.integers(1, 9)) if variant == "turned" else None, **options)


def colour_in(generator, samples):
    """One of the image's, as tRNS holds it."""
    return samples[generator.integers(0, len(samples)), generator.integers(0, samples.shape[1])].astype(">u2").tobytes()


def transparent_png(generator, height, width, channels, bits):
    """(file, what it shows: u8 (H, W, 4)), where one colour is transparent: it alone, told by all of its bits."""
    samples = photograph(generator, height, width, channels).astype(int)
    if bits == 16:
        samples = np.clip(samples * 257 + generator.integers(-2, 3, samples.shape), 0, 65535)
    else:
        samples = samples >> 8 - bits
    colour = colour_in(generator, samples)
    shown = samples >> 8 if bits == 16 else samples * (255 // (2**bits - 1))
    alpha = np.where((samples == np.frombuffer(colour, ">u2")).all(axis=2), 0, 255)
    shown = np.concatenate([np.broadcast_to(shown, (height, width, 3)), alpha[..., None]], axis=2).astype(np.uint8)
    return png(generator, samples, 0 if channels == 1 else 2, bits, bool(generator.random() < 0.3), None, colour), shown


def png_file(generator, height, width, variant):
    interlaced = bool(generator.random() < 0.3)
    if variant == "turned":
        return saved(Image.fromarray(photograph(generator, height, width)), "PNG", int(generator.integers(1, 9)))
    if variant == "animated":
        first, second = (Image.fromarray(photograph(generator, height, width)) for _ in range(2))
        return saved(first, "PNG", save_all=True, append_images=[second], default_image=bool(generator.random() < 0.5))
    if variant == "palette":
        bits = int(generator.choice([1, 2, 4, 8]))
        count = int(generator.integers(2, 2**bits + 1))
        palette = generator.integers(0, 256, (count, 3))
        transparency = None if generator.random() < 0.5 else generator.integers(0, 256, generator.integers(
            1, count + 1)).astype(np.uint8).tobytes()
        indices = photograph(generator, height, width, 1).astype(int) * count // 256
        return png(generator, indices, 3, bits, interlaced, palette, transparency)
    colour_type, channels = {"8 bit": (2, 3), "16 bit": (2, 3), "grey": (0, 1), "grey 16 bit": (0, 1), "alpha": (6, 4),
                             "grey alpha": (4, 2)}[variant]
    bits = 16 if variant.endswith("16 bit") or (variant.endswith("alpha") and generator.random() < 0.3) else 8
    if variant == "grey":
        bits = int(generator.choice([1, 2, 4, 8]))
    samples = photograph(generator, height, width, channels).astype(int)
    samples = samples * 257 if bits == 16 else samples >> 8 - bits
    if bits == 16:
        samples = np.clip(samples + generator.integers(-128, 129, samples.shape), 0, 65535)
    transparency = None
    # PIL compares what it has made of other numbers of bits with the colour as it is stored.
    if variant in ("8 bit", "grey") and bits in (1, 8) and generator.random() < 0.4:
        transparency = colour_in(generator, samples)
    return png(generator, samples, colour_type, bits, interlaced, None, transparency)


def webp(generator, height, width, variant):
    channels = 4 if generator.random() < 0.4 else 3
    image = Image.fromarray(photograph(generator, height, width, channels))
    orientation = int(generator.integers(1, 9)) if variant == "turned" else None
    if variant == "lossy":
        return saved(image, "WEBP", quality=int(generator.integers(10, 101)), method=int(generator.integers(0, 7)))
    return saved(image, "WEBP", orientation, lossless=True, exact=bool(generator.random() < 0.5))


def bmp(generator, height, width, variant):
    pixels = photograph(generator, height, width, {"colours": 3, "alpha": 4}.get(variant, 1))
    if variant == "palette":
        return saved(Image.fromarray(pixels[..., 0]).convert("RGB").quantize(int(generator.integers(2, 257))), "BMP")
    if variant == "grey":
        image = Image.fromarray(pixels[..., 0])
        return saved(image.convert("1") if generator.random() < 0.3 else image, "BMP")
    return saved(Image.fromarray(pixels), "BMP")


# (writer, variant, whether the file holds its pixels exactly, ending)
KINDS = [(jpeg, variant, False, "jpg") for variant in ("baseline", "progressive", "grey", "cmyk", "turned",
                                                          "colours as they are", "several pictures")]
KINDS += [(png_file, variant, True, "png") for variant in ("8 bit", "16 bit", "grey", "grey 16 bit", "palette", "alpha",
                                                           "grey alpha", "turned", "animated")]
KINDS += [(webp, "lossy", False, "webp"), (webp, "lossless", True, "webp"), (webp, "turned", True, "webp")]
KINDS += [(bmp, variant, True, "bmp") for variant in ("colours", "alpha", "palette", "grey")]


# Told by kind and variant, of which images that are transformed are made.
SOME_KINDS = [kind for kind in KINDS if (kind[0].__name__, kind[1]) in (
    ("jpeg", "baseline"), ("jpeg", "progressive"), ("jpeg", "grey"), ("jpeg", "turned"), ("png_file", "8 bit"),
    ("webp", "lossy"), ("webp", "lossless"))]


def turned_by_other_means(generator, height, width, variant):
    """(file, its pixels as they are stored): PIL turns it by what it says of its orientation, and trainer does not."""
    image = Image.fromarray(photograph(generator, height, width))
    if variant == "XMP":
        said = b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:Description tiff:Orientation="6"/></x:xmpmeta>'
        file = saved(image, "JPEG", xmp=said)
    else:
        file = saved(image, "PNG")
        end = file.rindex(b"IEND") - 4
        file = file[:end] + png_chunk(b"eXIf", exif_of(6).tobytes().removeprefix(b"Exif\0\0")) + file[end:]
    with Image.open(io.BytesIO(file)) as stored:
        return file, np.asarray(stored)


def by_pil(path, channels=3):
    """What PIL decodes a file to, upright: u8 (H, W, channels)."""
    with Image.open(path) as stored, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of palettes with alpha
        image = ImageOps.exif_transpose(stored)
        if image.mode.startswith("I;16"):
            # PIL cuts grey of 16 bits off at 255, so that nearly all of it is white; its upper eight bits are the image.
            image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
        pixels = np.asarray(image.convert({1: "L", 3: "RGB", 4: "RGBA"}[channels]))
        return pixels.reshape(image.height, image.width, channels)
