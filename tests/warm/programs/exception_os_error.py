open("/nonexistent/file")
