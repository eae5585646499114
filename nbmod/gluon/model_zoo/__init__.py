"""`mx.gluon.model_zoo`: names of Gluon's networks (see `nbmod.gluon`)."""
