from .plan import Plan as Plan, is_plan as is_plan
from .shard import Shard as Shard, compute as compute
from .union import union as union
