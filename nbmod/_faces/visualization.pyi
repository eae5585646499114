# Written by `python docs/generate_stubs.py`.
from nbmod.visualization import network_dot as network_dot
from nbmod.visualization import plot_network as plot_network
from nbmod.visualization import print_summary as print_summary
