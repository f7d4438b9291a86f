"""What a training step costs on other machines: a cost model in tokens and seconds, and where it stops scaling."""

from turnpoint.planning.cluster import Cluster, Efficiency
from turnpoint.planning.hardware import GPUS, Gpu
from turnpoint.planning.plan import Plan, make_plan
from turnpoint.planning.shapes import KNOWN, ModelShape, model_shape
from turnpoint.planning.step import PARTS, StepTime, step_time
from turnpoint.planning.workload import Workload, workload_of

__all__ = [
    "GPUS",
    "KNOWN",
    "PARTS",
    "Cluster",
    "Efficiency",
    "Gpu",
    "ModelShape",
    "Plan",
    "StepTime",
    "Workload",
    "make_plan",
    "model_shape",
    "step_time",
    "workload_of",
]
