def dynamic_metadata(settings, project):
    own = ["filelock", "typing-extensions>=4.10.0", "setuptools>=77.0.3", "sympy>=1.13.3", "networkx>=2.5.1"]
    return {"dependencies": [*own, "jinja2", "fsspec>=0.8.5"]}
