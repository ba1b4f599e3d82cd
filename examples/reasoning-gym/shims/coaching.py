"""Stands in for `reasoning_gym/coaching/__init__.py`, which imports score boards and YAML too."""

from .attributes import AttributeDefinition, RangeAttributeDefinition, ScalarAttributeDefinition
from .base_curriculum import BaseCurriculum

__all__ = ["AttributeDefinition", "BaseCurriculum", "RangeAttributeDefinition", "ScalarAttributeDefinition"]
