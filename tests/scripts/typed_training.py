"""Errors that type checkers and editors must find: a script as users write it."""

import numpy as np

import nbmod as mx

BATCH = 32


def network(classes: int) -> mx.sym.Symbol:
    data = mx.sym.Variable("data")
    net = mx.sym.Convolution(data, kernel=(3, 3), num_filter=8, pad=(1, 1), name="conv1")
    net = mx.sym.BatchNorm(net, fix_gamma=False, lr_mult=0.1)
    net = mx.sym.Activation(data=net, act_type="relu")
    net = mx.sym.Pooling(net, pool_type="max", kernel=(2, 2), stride=(2, 2))
    net = mx.sym.FullyConnected(mx.sym.flatten(net), num_hidden=classes, no_bias=1)
    net = mx.sym.concat(net, mx.sym.zeros_like(net), dim=1)
    net = mx.sym.contrib.BilinearResize2D(mx.sym.expand_dims(net, 0), height=4, width=4)
    return mx.sym.SoftmaxOutput(mx.sym.reshape(net, shape=(-1, classes)), name="softmax")


def train(images: np.ndarray, labels: np.ndarray) -> mx.mod.Module:
    batches = mx.io.NDArrayIter(images, labels, BATCH, shuffle=True)
    module = mx.mod.Module(network(10), context=[mx.cpu(0)])
    module.fit(batches, num_epoch=2, optimizer="sgd", optimizer_params={"learning_rate": 0.1},
               initializer=mx.init.Xavier(magnitude=2.0), eval_metric=mx.metric.Accuracy(),
               batch_end_callback=mx.callback.Speedometer(BATCH, 10), kvstore=mx.kv.create("local"))
    return module


def arrays() -> float:
    x = mx.nd.array([[1, 2], [3, 4]], dtype="float32")
    y = mx.nd.dot(x, mx.nd.random.uniform(shape=(2, 2)), transpose_b=True)
    mx.nd.add(x, 1, ).asnumpy()
    mx.nd.relu(y, out=x)
    first, second = mx.nd.split(mx.nd.cast(y, dtype=np.float64), num_outputs=2)
    values = mx.nd.topk(mx.nd.linalg.gemm2(x, y), k=1, ret_typ="value")
    mx.nd.image.to_tensor(mx.nd.contrib.isnan(values).reshape((1, 1, 2)))
    mx.nd.sgd_update(first, second, lr=0.1, out=first)
    mx.waitall()
    return float(values.asnumpy()[0, 0])


def experimental() -> mx.gluon.HybridBlock:
    nn, contrib = mx.gluon.nn, mx.gluon.contrib
    net = contrib.nn.HybridConcurrent(axis=1)
    net.add(nn.Conv2D(8, 3), nn.BatchNorm(), contrib.nn.SyncBatchNorm(num_devices=1),
            contrib.cnn.DeformableConvolution(8))
    cell = contrib.rnn.Conv1DLSTMCell((2, 3), 4, 1, 1)
    contrib.rnn.VariationalDropoutCell(mx.gluon.rnn.ZoneoutCell(cell), 0.1)
    print(contrib.data.text.WikiText2, mx.image.ImageDetIter)
    return net


def old_paths() -> object:
    assert issubclass(mx.io.io.NDArrayIter, mx.io.DataIter) and mx.base.c_str("x")
    assert isinstance("x", mx.base.string_types) and mx.base._as_list(1) == [1]
    x = mx.contrib.nd.isnan(mx.contrib.ndarray.box_nms(mx.nd.zeros((1, 6))))
    return [x, mx.contrib.sym.box_nms(mx.sym.Variable("x")), mx.gluon.utils.split_and_load,
            mx.contrib.quantization.quantize_model, mx.safetensors.load_model]


def blocks() -> mx.gluon.nn.HybridSequential:
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.BatchNorm(), mx.gluon.nn.MaxPool2D(2), mx.gluon.nn.ELU())
    cell = mx.gluon.rnn.LSTMCell(4)
    mx.gluon.rnn.BidirectionalCell(cell, mx.gluon.rnn.ZoneoutCell(cell))
    return net


mx.sym.Convolution(mx.sym.Variable("x"), kernl=(3, 3), num_filter=1)  # wrong
mx.sym.Convolution(mx.sym.Variable("x"), kernel="large", num_filter=1)  # wrong
mx.sym.Activation(mx.sym.Variable("x"), act_type="rellu")  # wrong
mx.sym.FullyConnected(mx.nd.zeros((1, 1)), num_hidden=1)  # wrong
mx.sym.FullyConnected(mx.sym.Variable("x"), num_hidden="many")  # wrong
mx.nd.dot(mx.nd.zeros((1, 1)))  # wrong
mx.nd.dot(mx.nd.zeros((1, 1)), 3)  # wrong
mx.nd.expand_dims(mx.nd.zeros((1, 1)), axes=1)  # wrong
mx.nd.linalg.gemm2(1, 2).asnumpy()  # wrong
mx.init.Xavier(magnitude="3")  # wrong
mx.mod.Module(network(1), contexts=mx.cpu())  # wrong
mx.npx.relu  # wrong  # noqa: B018
mx.sym.Convolutoin(mx.sym.Variable("x"), kernel=(3, 3), num_filter=1)  # wrong
mx.nd.sofmax(mx.nd.zeros((1, 1)))  # wrong
mx.nd.contrib.box_nmz(mx.nd.zeros((1, 6)))  # wrong
mx.sym.contrib.box_nmz(mx.sym.Variable("x"))  # wrong
mx.mod.Module(network(1)).fit(mx.io.NDArrayIter(np.zeros(3)), num_epoch="3")  # wrong
mx.mod.Module(network(1)).get_output()  # wrong
mx.nd.zeros((1, 1)).asnumpi()  # wrong
mx.metric.Acuracy()  # wrong
mx.viz.plot_netwrk(network(1))  # wrong
mx.callback.Speedomter(1)  # wrong
mx.io.io.NDArrayItr(np.zeros(3))  # wrong
mx.base.MXNetEror  # wrong  # noqa: B018
mx.contrib.quantization.quantize_modl()  # wrong
mx.contrib.onn  # wrong  # noqa: B018
mx.gluon.utls  # wrong  # noqa: B018
mx.safetensors.load_modl  # wrong  # noqa: B018
