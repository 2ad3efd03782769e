from .about import About as About
from .graph import onnx_graph as onnx_graph
from .int8 import in_int8 as in_int8
from .onnx_model import OnnxModel as OnnxModel
from .pixels import Pixels as Pixels
