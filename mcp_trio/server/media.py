"""Pictures and sound: bytes with a MIME type, which bytes mostly tell themselves."""

import base64

import attrs

# What files begin with. RIFF is a container: what is in it follows the length.
MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"RIFF????WEBP", "image/webp"),
    (b"RIFF????WAVE", "audio/wav"),
    (b"ID3", "audio/mpeg"),
    (b"\xff\xfb", "audio/mpeg"),
    (b"OggS", "audio/ogg"),
    (b"fLaC", "audio/flac"),
)


def sniff(data: bytes) -> str | None:
    """The MIME type of an image or of sound, from its first bytes; None for anything else."""
    for magic, mime_type in MAGIC:
        head = data[: len(magic)]
        if len(head) == len(magic) and all(
            m in (h, ord("?")) for m, h in zip(magic, head, strict=True)
        ):
            return mime_type
    return None


@attrs.frozen
class Media:
    """Bytes for a model to look at or listen to: the base of `Image` and `Audio`.

    ``mime_type`` is found from the bytes where it is not given; ValueError if that fails.
    """

    data: bytes = attrs.field(repr=lambda data: f"<{len(data)} bytes>")
    mime_type: str = ""

    def __attrs_post_init__(self) -> None:
        if not self.mime_type:
            found = sniff(self.data)
            if found is None:
                name = type(self).__name__
                raise ValueError(f"{name}: these bytes do not tell what they are; give a mime_type")
            object.__setattr__(self, "mime_type", found)

    @property
    def base64(self) -> str:
        return base64.b64encode(self.data).decode("ascii")


@attrs.frozen
class Image(Media):
    """An image, as a tool returns it: ``Image(png_bytes)`` or ``Image(data, "image/avif")``."""


@attrs.frozen
class Audio(Media):
    """Sound, as a tool returns it: ``Audio(wav_bytes)`` or ``Audio(data, "audio/midi")``."""
