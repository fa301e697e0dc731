{}["a key\nwith a line"]
