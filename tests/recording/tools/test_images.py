"""Images of recordings as files: each pixel as it was, and what cannot be written is told."""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import cyclonedds.idl.types as t
import numpy as np
import pytest
from cyclonedds.idl import IdlStruct
from mcap.writer import Writer
from PIL import Image as Picture
from rosbags.typesys import Stores, get_typestore

from rtmw.cli import main
from rtmw.errors import RecordingError
from rtmw.recording.tools.copying import ALL, Section
from rtmw.recording.tools.images import ENCODINGS, export_images, png
from tests.recordings import BEGIN_NS, MS, Maker


@dataclass
class Image(IdlStruct, typename="sensor_msgs.msg.Image"):
    height: t.uint32
    width: t.uint32
    encoding: str
    is_bigendian: t.byte
    step: t.uint32
    data: t.sequence[t.byte]


@dataclass
class CompressedImage(IdlStruct, typename="sensor_msgs.msg.CompressedImage"):
    format: str
    data: t.sequence[t.byte]


def raw(encoding: str, pixels: Any, pad: int = 0, big: int = 0) -> Image:
    """An image with so many bytes behind each row."""
    rows = np.ascontiguousarray(pixels).view(np.uint8).reshape(len(pixels), -1)
    data = np.pad(rows, ((0, 0), (0, pad)), constant_values=77)
    return Image(len(pixels), pixels.shape[1], encoding, big, data.shape[1], data.tobytes())


def write(path: Path, *images: tuple[str, IdlStruct]) -> Path:
    """A recording of these, a millisecond apart."""
    channels: dict[tuple[str, type], int] = {}
    with Maker(path) as maker:
        for number, (topic, image) in enumerate(images):
            key = topic, type(image)
            if key not in channels:
                channels[key] = maker.channel(*key)
            maker.write(channels[key], number * MS, image.serialize())
    return path


def one(tmp_path: Path, image: IdlStruct) -> Path:
    """The file that an image becomes."""
    export_images([write(tmp_path / "a.mcap", ("camera/front", image))], tmp_path / "images", ALL)
    (file,) = (tmp_path / "images" / "camera%2Ffront").iterdir()
    return file


def noise(*shape: int, kind: Any = np.uint8) -> Any:
    return np.random.default_rng(5).integers(0, np.iinfo(kind).max, shape, kind)


@pytest.mark.parametrize(("encoding", "pad"), [(name, pad) for name in ENCODINGS if "16" not in name for pad in (0, 3)])
def test_a_raw_image_is_a_png_with_its_pixels(tmp_path: Path, encoding: str, pad: int) -> None:
    channels, _, order = ENCODINGS[encoding]
    pixels = noise(5, 7, channels)
    file = one(tmp_path, raw(encoding, pixels, pad))
    assert file.name == f"{BEGIN_NS}.png"
    found = np.asarray(Picture.open(file)).reshape(5, 7, channels)
    assert np.array_equal(found, pixels[:, :, [2, 1, 0, 3][:channels]] if order else pixels)


@pytest.mark.parametrize("big", [0, 1])
def test_sixteen_bits_keep_their_values_in_either_byte_order(tmp_path: Path, big: int) -> None:
    pixels = noise(4, 3, kind=np.uint16)
    file = one(tmp_path, raw("mono16", pixels.astype(">u2" if big else "<u2"), big=big))
    assert np.array_equal(np.asarray(Picture.open(file)), pixels)


@pytest.mark.parametrize(("form", "suffix"), [("JPEG", ".jpg"), ("PNG", ".png"), ("WEBP", ".webp"), ("BMP", ".bmp")])
def test_a_compressed_image_stays_as_it_is_and_its_first_bytes_name_it(tmp_path: Path, form: str, suffix: str) -> None:
    memory = BytesIO()
    Picture.fromarray(noise(5, 7, 3)).save(memory, form)
    file = one(tmp_path, CompressedImage("rgb8; whatever compressed", memory.getvalue()))
    assert file.suffix == suffix
    assert file.read_bytes() == memory.getvalue()


@pytest.mark.parametrize(
    ("image", "reason"),
    [
        (Image(2, 2, "yuv422", 0, 4, bytes(8)), "encoded as 'yuv422' cannot be written; mono8, "),
        (Image(2, 2, "rgb8", 0, 6, bytes(11)), "2 × 2 pixels, 6 bytes a row, has 11 bytes"),
        (Image(2, 2, "rgb8", 0, 5, bytes(12)), "2 × 2 pixels, 5 bytes a row"),
        (Image(2**31, 2**31, "mono8", 0, 2**31, bytes(8)), "has 8 bytes"),
        (Image(0, 0, "mono8", 0, 0, b""), "0 × 0 pixels"),
        (CompressedImage("h264", b"\0\0\0\1"), "an image of the format 'h264' does not begin as JPEG"),
        (CompressedImage("webp", b"RIFF\0\0\0\0WAVE"), "does not begin as JPEG"),
    ],
)
def test_what_cannot_be_written_is_told_and_the_others_are_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], image: IdlStruct, reason: str
) -> None:
    path = write(tmp_path / "a.mcap", ("a", raw("mono8", noise(2, 2))), ("b", image), ("b", image))
    assert main(["recording", "images", str(path), "-o", str(tmp_path / "images")]) == 1
    told = capsys.readouterr()
    assert told.out.splitlines()[1:] == ["  a: 1", "  left out: 2 images"]
    assert reason in told.err


def test_topics_and_time_may_be_chosen_and_images_of_one_time_are_kept(tmp_path: Path) -> None:
    image = raw("mono8", noise(2, 2))
    path = write(tmp_path / "a.mcap", ("a", image), ("b", image), ("b", image), ("b", image))
    found = export_images([path], tmp_path / "images", Section(("b",), 0.002, None))
    assert (dict(found.images), found.left_out_count) == ({"b": 2}, 0)
    with Maker(tmp_path / "b.mcap") as maker:
        channel = maker.channel("c", Image)
        for _ in range(3):
            maker.write(channel, 0, image.serialize())
    export_images([maker.path], tmp_path / "more", ALL)
    names = sorted(file.name for file in (tmp_path / "more" / "c").iterdir())
    assert names == [f"{BEGIN_NS}-1.png", f"{BEGIN_NS}-2.png", f"{BEGIN_NS}.png"]


def test_a_recording_without_images_is_told_and_leaves_no_folder(tmp_path: Path) -> None:
    with Maker(tmp_path / "a.mcap") as maker:
        maker.write(maker.channel("t"), 0, b"")
    with pytest.raises(RecordingError, match=r"no topic with images, which are messages of foxglove\.CompressedImage"):
        export_images([maker.path], tmp_path / "images", ALL)
    assert not (tmp_path / "images").exists()


def test_a_png_is_read_by_others() -> None:
    pixels = noise(3, 2, 4)
    assert np.array_equal(np.asarray(Picture.open(BytesIO(png(pixels)))), pixels)


def test_images_of_a_ros_2_bag_are_written(tmp_path: Path) -> None:
    store = get_typestore(Stores.ROS2_HUMBLE)
    types = store.types
    stamp = types["builtin_interfaces/msg/Time"](1, 2)
    pixels = noise(3, 4, 3)
    head = types["std_msgs/msg/Header"](stamp, "camera")
    image = types["sensor_msgs/msg/Image"](head, 3, 4, "rgb8", 0, 12, pixels.reshape(-1))
    with (tmp_path / "a.mcap").open("wb") as file:
        writer = Writer(file)
        writer.start("ros2")
        text, _ = store.generate_msgdef("sensor_msgs/msg/Image", ros_version=2)
        schema = writer.register_schema("sensor_msgs/msg/Image", "ros2msg", text.encode())
        channel = writer.register_channel("/camera", "cdr", schema)
        writer.add_message(channel, 5, bytes(store.serialize_cdr(image, "sensor_msgs/msg/Image")), 4)
        writer.finish()
    assert export_images([tmp_path / "a.mcap"], tmp_path / "images", ALL).images == {"/camera": 1}
    assert np.array_equal(np.asarray(Picture.open(tmp_path / "images" / "%2Fcamera" / "4.png")), pixels)
