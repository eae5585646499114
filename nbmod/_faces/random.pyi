# Written by `python docs/generate_stubs.py`.
from nbmod.random import exponential as exponential
from nbmod.random import gamma as gamma
from nbmod.random import generalized_negative_binomial as generalized_negative_binomial
from nbmod.random import get_state as get_state
from nbmod.random import multinomial as multinomial
from nbmod.random import negative_binomial as negative_binomial
from nbmod.random import normal as normal
from nbmod.random import poisson as poisson
from nbmod.random import randint as randint
from nbmod.random import randn as randn
from nbmod.random import seed as seed
from nbmod.random import set_state as set_state
from nbmod.random import shuffle as shuffle
from nbmod.random import uniform as uniform
