"""Adapters for agent frameworks. Each module needs the extra of its name: `pip install 'belljar[smolagents]'`.

docs/frameworks.md of the repository has a section for each. Nothing is imported here, since no framework is a
dependency of `belljar`.
"""
