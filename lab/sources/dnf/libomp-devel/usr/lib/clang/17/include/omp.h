/* Lab stand-in of OpenMP's header: its presence is what is asked for. */
