# Written by `python docs/generate_stubs.py`.
from nbmod.gluon import Block as Block
from nbmod.gluon import Constant as Constant
from nbmod.gluon import DeferredInitializationError as DeferredInitializationError
from nbmod.gluon import HybridBlock as HybridBlock
from nbmod.gluon import Parameter as Parameter
from nbmod.gluon import ParameterDict as ParameterDict
from nbmod.gluon import SymbolBlock as SymbolBlock
from nbmod.gluon import Trainer as Trainer
from nbmod.gluon import block as block
from nbmod.gluon import contrib as contrib
from nbmod.gluon import data as data
from nbmod.gluon import loss as loss
from nbmod.gluon import model_zoo as model_zoo
from nbmod.gluon import nn as nn
from nbmod.gluon import rnn as rnn
from nbmod.gluon import trainer as trainer
from nbmod.gluon import utils as utils
