"""The command line, `python -m nbmod`: a module for each command.

Each has `HELP`, `arguments`, which describes its options to the parser, and `run`, which does the
work and returns the exit status; `demo` alone is a plain function.  An MXNetError outside of a
user's script is one line on stderr, without a traceback.

    main.py          the table of commands, the parser, and the exit status
    options.py       options of several commands: `--shape`, `--epoch`, `--import MODULE`
    counter.py       the progress bar of one line that `im2rec` shows
    run.py           `run`: a program as Python runs it, with nbmod as `mxnet`
    demo.py          `demo`: trains LeNet on digits that nbmod ships, and saves a checkpoint
    launch.py        `launch`: a script as several ranks, on one host or many
    bench.py         `bench`: the time of each step of a network, against the roofline
    explain.py       `explain`: why the steps of a plan are as they are
    warmup.py        `warmup`: compiles the kernels of a network ahead of its first run
    predict.py       `predict`: classes, boxes or segments of images
    answers.py       the outputs of a network as the text, JSON and pictures of `predict`
    face_boxes.py    the boxes of RetinaFace's outputs, for `predict`
    inspect.py       `inspect`: the contents of a file, and its damage
    model_report.py  the part of `inspect` about networks and parameters, as a dict for JSON
    origins.py       the algorithm that made a model, recognized by names of files and nodes
    convert.py       `convert`: models between MXNet, ONNX, safetensors and NumPy
    rec.py           `rec`: inspects, verifies, repairs, slices and merges record files
    rec2idx.py       `rec2idx`: rebuilds the index of a record file
    im2rec.py        `im2rec`: lists of images, and record files of lists
    doctor.py        `doctor`: the report on a machine for issues, with a self test
    self_test.py     small networks with known results, which `doctor` runs
    dist_test.py     three ranks that exchange buffers, which `doctor --dist` starts

Begin with `main.py`.  Imports anything.
"""
