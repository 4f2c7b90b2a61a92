"""An image without a copy: the camera draws into shared memory, and the viewer looks at the same bytes."""

from __future__ import annotations

import numpy as np

import rtmw

SHAPE = (1080, 1920, 3)
IMAGE = np.dtype((np.uint8, SHAPE))

with rtmw.Subscriber("camera/image", IMAGE) as viewer, rtmw.Publisher("camera/image", IMAGE) as camera:
    with camera.loan(IMAGE.itemsize) as loan:
        drawing = np.frombuffer(memoryview(loan), np.uint8).reshape(SHAPE)
        drawing[:] = 0
        drawing[:, :, 1] = np.arange(SHAPE[1]) % 256  # a green ramp, drawn where it will be read
        loan.publish()

    image = viewer.receive(timeout=1).value
    print(f"image of {image.shape[1]} x {image.shape[0]}, {image.nbytes} bytes, mean green {image[:, :, 1].mean():.1f}")
    print("copied" if image.flags.owndata else "not copied: the array is a view of shared memory")
    print("read-only" if not image.flags.writeable else "writable")
