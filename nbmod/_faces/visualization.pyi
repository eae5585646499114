# Written by `python docs/generate_stubs.py`.
from nbmod.diagram.visualization import network_dot as network_dot
from nbmod.diagram.visualization import plot_network as plot_network
from nbmod.diagram.visualization import print_summary as print_summary
