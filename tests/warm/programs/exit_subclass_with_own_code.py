class Mine(SystemExit):
    @property
    def code(self):
        return 6


raise Mine()
