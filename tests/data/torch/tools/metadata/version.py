import os


def dynamic_metadata(settings, project):
    assert int(os.environ["PYTORCH_BUILD_NUMBER"]) == 1
    return {"version": os.environ["PYTORCH_BUILD_VERSION"]}
