"""Ask an exported model without layup and PyTorch: python predict_onnx.py m.onnx photo.jpg …"""

import sys

import numpy as np
import onnxruntime
from PIL import Image, ImageOps

model, *photos = sys.argv[1:]
session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
outputs = [each.name for each in session.get_outputs()]

for photo in photos:
    image = ImageOps.exif_transpose(Image.open(photo)).convert("RGB")
    found = dict(zip(outputs, session.run(outputs, {"images": np.array(image)[None]}), strict=True))
    label, score = found["label"][0], found["scores"].max()
    sure = f"{found['confidence'][0]:.0%}" if "confidence" in found else f"score {score:.2f}"
    unknown = found.get("unknown", [False])[0]
    print(photo, f"unknown ({label}?)" if unknown else label, sure, sep="\t")
