"""A scheduler assembled and run: settings, the program made of them, its ports, its health.

The whole of it in a program of your own::

    async with assembled(Settings(configuration=configuration_of(None, None))) as program, served(program, settings):
        await program.run()
"""
