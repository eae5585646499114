"""`mx.gluon.contrib`: names of Gluon's experimental parts (see `nbmod.gluon`)."""
