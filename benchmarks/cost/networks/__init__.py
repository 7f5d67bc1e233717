# SPDX-License-Identifier: Apache-2.0
"""Published networks as graphs of shapes: one function each, ``mobilenet_v2(size=224, alpha=1.0, dtype="int8")``."""

from benchmarks.cost.networks.classic import deeplab_v3_mobilenet_v2 as deeplab_v3_mobilenet_v2
from benchmarks.cost.networks.classic import efficientnet_lite0 as efficientnet_lite0
from benchmarks.cost.networks.classic import mobilenet_v1 as mobilenet_v1
from benchmarks.cost.networks.classic import mobilenet_v2 as mobilenet_v2
from benchmarks.cost.networks.classic import resnet50 as resnet50
from benchmarks.cost.networks.classic import retinaface_mobilenet as retinaface_mobilenet
from benchmarks.cost.networks.classic import retinaface_resnet50 as retinaface_resnet50
from benchmarks.cost.networks.classic import ssd_mobilenet_v1 as ssd_mobilenet_v1
from benchmarks.cost.networks.classic import ssd_mobilenet_v2 as ssd_mobilenet_v2
from benchmarks.cost.networks.small import ds_cnn_kws as ds_cnn_kws
from benchmarks.cost.networks.small import wav2letter as wav2letter
from benchmarks.cost.networks.yolo import yolo11 as yolo11
from benchmarks.cost.networks.yolo import yolov5 as yolov5
from benchmarks.cost.networks.yolo import yolov8 as yolov8
from benchmarks.cost.networks.yolo import yolov10 as yolov10
from benchmarks.cost.networks.yolo_others import yolov6 as yolov6
from benchmarks.cost.networks.yolo_others import yolov7 as yolov7
from benchmarks.cost.networks.yolo_others import yolov7_tiny as yolov7_tiny
from benchmarks.cost.networks.yolo_others import yolox as yolox
